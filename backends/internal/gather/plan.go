package gather

import (
	"iter"
	"math/bits"

	"github.com/dlx-go/dlx/backends/internal/strided"
)

// Limits are the properties of a device that [Plan] needs. The comments give Vulkan's names; OpenGL's are
// GL_MAX_SHADER_STORAGE_BLOCK_SIZE, GL_SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT and
// GL_MAX_COMPUTE_WORK_GROUP_COUNT.
type Limits struct {
	StorageRange    int64     // maxStorageBufferRange
	OffsetAlignment int64     // minStorageBufferOffsetAlignment
	Groups          [3]uint32 // maxComputeWorkGroupCount
	Storage8        bool      // storageBuffer8BitAccess is enabled
	Storage16       bool      // storageBuffer16BitAccess is enabled
	Tiles           bool      // tiles in shared memory are faster, as on a GPU; a CPU has only its cache for them
}

// MaxAxes is the maximal number of axes of one dispatch.
const MaxAxes = 8

// Constants are the push constants of a dispatch, in the layout that the shader reads; uniforms of these
// names in OpenGL, a parameter in CUDA. Offsets and steps count words.
type Constants struct {
	DstFirst, SrcFirst int32
	Planes             uint32
	Wide               uint32
	N                  [MaxAxes]uint32
	DstStep, SrcStep   [MaxAxes]int32
}

// Window is the range of a buffer that is bound for the shader, in bytes. Offset is a multiple of
// Limits.OffsetAlignment, and Size is at most Limits.StorageRange.
type Window struct {
	Offset, Size int64
}

// Dispatch is one launch of a shader, with the windows and constants that it needs.
type Dispatch struct {
	Shader    Shader
	Dst, Src  Window
	Constants Constants
	Groups    [3]uint32
}

const (
	groupBits = 8  // a group has 1 << groupBits invocations
	tileSide  = 32 // words; a group moves one tile at a time
	// longEnough is the extent from which an axis is dealt out to neighbouring
	// invocations, or a pair of axes is worth tiles.
	longEnough = 16
)

// Plan divides a copy into dispatches that do not depend on each other. The offsets of c count from the start
// of the buffers. Every device is supported: where it lacks what plain shaders need, Plan uses packed ones.
// These read and write whole uints, and their windows end on a multiple of 4 bytes.
func Plan(c strided.Copy, l Limits) iter.Seq[Dispatch] {
	c = c.Narrow(maxWord)
	alignment := max(l.OffsetAlignment, maxWord)
	reach := min(l.StorageRange, 1<<31) - 2*alignment
	return func(yield func(Dispatch) bool) {
		for part := range c.Split(strided.Limits{Rank: MaxAxes, Count: 1 << 31, Reach: reach}) {
			if !yield(l.dispatch(part, alignment)) {
				return
			}
		}
	}
}

// dispatch makes the dispatch of a part that is within the limits.
func (l Limits) dispatch(c strided.Copy, alignment int64) Dispatch {
	d := Dispatch{Shader: Shader{Word: uint8(c.Elem)}}
	d.Shader.Packed = c.Elem == 1 && !l.Storage8 || c.Elem == 2 && !l.Storage16
	r := c.Range()
	d.Dst = d.Shader.window(r.DstLow, r.DstHigh, alignment)
	d.Src = d.Shader.window(r.SrcLow, r.SrcHigh, alignment)

	k := &d.Constants
	k.DstFirst, k.SrcFirst = int32((c.Dst-d.Dst.Offset)/c.Elem), int32((c.Src-d.Src.Offset)/c.Elem)
	k.Planes = 1
	axes, across := plane(c.Axes)
	for i := range k.N {
		a := strided.Axis{N: 1}
		if i < len(axes) {
			a = axes[i]
		}
		k.N[i], k.DstStep[i], k.SrcStep[i] = uint32(a.N), int32(a.Dst/c.Elem), int32(a.Src/c.Elem)
		if i >= 2 {
			k.Planes *= k.N[i]
		}
	}
	k.Wide = wide(k.N[0], k.N[1], across)
	width, height := uint32(1)<<k.Wide, uint32(1)<<(groupBits-k.Wide)
	if across && l.Tiles && !d.Shader.Packed && d.Shader.Word < maxWord && min(k.N[0], k.N[1]) >= longEnough {
		d.Shader.Tiled = true
		width, height = tileSide, tileSide
	}
	d.Groups = [3]uint32{
		min((k.N[0]-1)/width+1, l.Groups[0]),
		min((k.N[1]-1)/height+1, l.Groups[1]),
		min(k.Planes, l.Groups[2]),
	}
	return d
}

// window is the range from low to high, from an aligned offset on.
func (s Shader) window(low, high, alignment int64) Window {
	if s.Packed {
		high = (high + 3) &^ 3
	}
	low &^= alignment - 1
	return Window{low, high - low}
}

// plane orders the axes for the shader, innermost first: axis 0 runs along the
// destination, axis 1 along the source if that is another one. across reports that
// it is, so that a plane is transposed.
func plane(outermostFirst []strided.Axis) (axes []strided.Axis, across bool) {
	for i := range outermostFirst {
		axes = append(axes, outermostFirst[len(outermostFirst)-1-i])
	}
	if len(axes) < 2 {
		return axes, false
	}
	// A short axis keeps few invocations busy, and one that is next to it lies as densely.
	if axes[0].N < longEnough {
		longest := 0
		for i, a := range axes {
			if a.N > axes[longest].N {
				longest = i
			}
		}
		toFront(axes, longest)
	}
	densest := 1
	for i, a := range axes[1:] {
		if a.Src != 0 && (axes[densest].Src == 0 || distance(a) < distance(axes[densest])) {
			densest = i + 1
		}
	}
	if s := axes[densest].Src; s != 0 && distance(axes[densest]) < distance(axes[0]) {
		toFront(axes[1:], densest-1)
		return axes, true
	}
	return axes, false
}

// distance is how far one step goes in the source.
func distance(a strided.Axis) int64 { return max(a.Src, -a.Src) }

// toFront moves axis i before the others, which keep their order.
func toFront(axes []strided.Axis, i int) {
	a := axes[i]
	copy(axes[1:i+1], axes[:i])
	axes[0] = a
}

// wide is how many words of axis 0 a group covers, as a power of two; the rest of
// its invocations go along axis 1. A plane that is transposed is cut into squares, so
// that a cache line that was read is used up soon.
func wide(n0, n1 uint32, across bool) uint32 {
	w := groupBits
	if across {
		w = groupBits / 2
	}
	w = max(w, groupBits-bits.Len32(n1-1))
	return uint32(min(w, bits.Len32(n0-1)))
}
