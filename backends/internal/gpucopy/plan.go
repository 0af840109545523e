package gpucopy

import (
	"iter"
	"math/bits"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
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
	PackedTiles     bool      // packed shaders have tiles too, as in WGSL
}

// Allows reports whether a device with these limits may be given the shader, in words of 8 or 16 bits only if their
// feature is enabled. SwiftShader ends the process if it is given another one.
func (l Limits) Allows(s Shader) bool {
	return s.Packed || s.Word > 2 || s.Word == 2 && l.Storage16 || s.Word == 1 && l.Storage8
}

// MaxAxes is the maximal number of axes of one dispatch.
const MaxAxes = 8

// Constants are the push constants of a dispatch, in the layout that the shader reads; uniforms of these
// names in OpenGL, a parameter in CUDA. Offsets and steps count words.
type Constants struct {
	DstFirst, SrcFirst int32
	Planes             uint32
	Wide               uint32 // the invocations of a group cover 1 << Wide lanes of axis 0; for Shader.Channels a span has so many
	Along              uint32 // 1 << Along items of an invocation follow each other on axis 0, the others on axis 1
	Whole              uint32 // not 0: all lanes in shared memory are aligned on both sides, and their words lie side by side
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
	itemBits  = 2  // an invocation loads 1 << itemBits lanes before it writes one
	tileSide  = 32 // cells of a tile along axis 1
	tileBytes = 8 << 10
	// maxChannels is up to where an axis that is dense on one side is one of channels.
	maxChannels = 8
	// longEnough is the extent from which an axis is dealt out to neighbouring
	// invocations, or a pair of axes is worth tiles.
	longEnough = 16
	// maxGroups is how many groups a dispatch has, except where they have less than one
	// step each: several for every place that the largest card has for a group. Each
	// goes on to the next of its steps, which costs less than a new group.
	maxGroups = 1 << 14
)

// lane is the number of words that an invocation writes at once: those of 4 bytes.
func (s Shader) lane() uint32 { return max(1, 4/uint32(s.Word)) }

// Plan divides a copy into dispatches that do not depend on each other. The offsets of c count from the start
// of the buffers. Every device is supported: where it lacks what plain shaders need, Plan uses packed ones.
// These read and write whole uints, and their windows end on a multiple of 4 bytes.
func Plan(c copyplan.Copy, l Limits) iter.Seq[Dispatch] {
	c = c.Narrow(maxWord)
	alignment := max(l.OffsetAlignment, maxWord)
	reach := min(l.StorageRange, 1<<31) - 2*alignment
	return func(yield func(Dispatch) bool) {
		for part := range c.Split(copyplan.Limits{Rank: MaxAxes, Count: 1 << 31, Reach: reach}) {
			if !yield(l.dispatch(part, alignment)) {
				return
			}
		}
	}
}

// dispatch makes the dispatch of a part that is within the limits.
func (l Limits) dispatch(c copyplan.Copy, alignment int64) Dispatch {
	d := Dispatch{Shader: Shader{Word: uint8(c.Elem)}}
	d.Shader.Packed = c.Elem == 1 && !l.Storage8 || c.Elem == 2 && !l.Storage16
	r := c.Range()
	d.Dst = d.Shader.window(r.DstLow, r.DstHigh, alignment)
	d.Src = d.Shader.window(r.SrcLow, r.SrcHigh, alignment)

	k := &d.Constants
	k.DstFirst, k.SrcFirst = int32((c.Dst-d.Dst.Offset)/c.Elem), int32((c.Src-d.Src.Offset)/c.Elem)
	k.Planes = 1
	shared := l.Tiles && (!d.Shader.Packed || l.PackedTiles) && d.Shader.Word < maxWord
	var axes []copyplan.Axis
	across := false
	if shared {
		axes = channels(c)
	}
	if d.Shader.Channels = axes != nil; !d.Shader.Channels {
		axes, across = plane(c.Axes)
		d.Shader.Tiled = across && shared && min(axes[0].N, axes[1].N) >= longEnough && large(c, axes)
	}
	for i := range k.N {
		a := copyplan.Axis{N: 1}
		if i < len(axes) {
			a = axes[i]
		}
		k.N[i], k.DstStep[i], k.SrcStep[i] = uint32(a.N), int32(a.Dst/c.Elem), int32(a.Src/c.Elem)
		if i >= 2 {
			k.Planes *= k.N[i]
		}
	}
	var width, height uint32 // words of axis 0, and of axis 1, that a group copies in a step
	switch {
	case d.Shader.Channels:
		width, height = d.spans()
	case d.Shader.Tiled:
		width, height = d.tiles()
	default:
		width, height = d.rows(across)
	}
	if d.Shader.Packed && (d.Shader.Tiled || d.Shader.Channels) && k.Whole == 0 {
		l.PackedTiles = false // they move whole lanes only
		return l.dispatch(c, alignment)
	}
	groups := uint32(maxGroups)
	for i, need := range []uint32{(k.N[0]-1)/width + 1, (k.N[1]-1)/height + 1, k.Planes} {
		d.Groups[i] = min(need, l.Groups[i], groups)
		groups /= d.Groups[i]
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
func plane(outermostFirst []copyplan.Axis) (axes []copyplan.Axis, across bool) {
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
func distance(a copyplan.Axis) int64 { return max(a.Src, -a.Src) }

// toFront moves axis i before the others, which keep their order.
func toFront(axes []copyplan.Axis, i int) {
	a := axes[i]
	copy(axes[1:i+1], axes[:i])
	axes[0] = a
}

// large reports whether the plane of the first two axes is so large that the room in shared memory is not mostly
// empty.
func large(c copyplan.Copy, axes []copyplan.Axis) bool {
	return axes[0].N*axes[1].N*c.Elem >= tileBytes/8
}

// channels returns the axes ordered for Shader.Channels: first the pixels, then their channels. It returns nil if there
// are no such axes.
func channels(c copyplan.Copy) []copyplan.Axis {
	for i, channel := range c.Axes {
		if channel.N > maxChannels {
			continue
		}
		for k, pixel := range c.Axes {
			mixed, row := channel.N*c.Elem, c.Elem // steps from pixel to pixel
			toRows := channel.Src == c.Elem && pixel.Src == mixed && pixel.Dst == row
			toMixed := channel.Dst == c.Elem && pixel.Dst == mixed && pixel.Src == row
			axes := []copyplan.Axis{pixel, channel}
			if !toRows && !toMixed || !large(c, axes) {
				continue
			}
			for m := len(c.Axes) - 1; m >= 0; m-- {
				if m != i && m != k {
					axes = append(axes, c.Axes[m])
				}
			}
			return axes
		}
	}
	return nil
}

// tiles sets whether lanes are whole, and returns how many words of axis 0, and of axis 1, a tile has.
func (d *Dispatch) tiles() (width, height uint32) {
	k, per := &d.Constants, d.Shader.lane()
	if k.DstStep[0] == 1 && k.SrcStep[1] == 1 {
		d.whole(k.DstStep[1] | k.SrcStep[0])
	}
	height = tileSide * per
	return tileBytes / uint32(d.Shader.Word) / height, height
}

// spans sets which span of pixels goes through shared memory at a time, and whether its lanes are whole. It returns
// how many words of axis 0, and of axis 1, these are.
func (d *Dispatch) spans() (width, height uint32) {
	k, per := &d.Constants, d.Shader.lane()
	if k.DstStep[0] == 1 {
		d.whole(k.DstStep[1])
	} else {
		d.whole(k.SrcStep[1])
	}
	room := tileBytes / (uint32(d.Shader.Word) * per) / k.N[1] // lanes for a channel
	k.Wide = uint32(bits.Len32(room) - 1)
	return per << k.Wide, k.N[1]
}

// whole sets whether lanes are aligned where all words from which they are counted begin, and those of the plane, which
// have any of the bits of steps.
func (d *Dispatch) whole(steps int32) {
	k := &d.Constants
	all := k.DstFirst | k.SrcFirst | steps
	for i := 2; i < MaxAxes; i++ {
		all |= k.DstStep[i] | k.SrcStep[i]
	}
	if uint32(all)%d.Shader.lane() == 0 {
		k.Whole = 1
	}
}

// rows sets how the lanes of a plane are dealt out to the items of a group, and returns how many words of axis 0,
// and of axis 1, these are.
func (d *Dispatch) rows(across bool) (width, height uint32) {
	k, per := &d.Constants, d.Shader.lane()
	// A row that is dense in the destination may begin and end within a lane.
	x, y := bits.Len32((k.N[0]+2*(per-1))/per-1), bits.Len32(k.N[1]-1)
	wide, along := groupBits, itemBits
	if across {
		// A plane that is transposed is cut into squares, so that a cache line that was read is used up soon.
		wide, along = groupBits/2, itemBits/2
	}
	wide = min(max(wide, groupBits-y), x)
	high := groupBits - wide
	// As many items along axis 0 as a row fills, and more only if axis 1 is too short for the others.
	filled := max(bits.Len32(k.N[0]/per)-1-wide, 0)
	along = max(min(along, filled), min(itemBits-max(y-high, 0), x-wide))
	k.Wide, k.Along = uint32(wide), uint32(along)
	return per << (wide + along), 1 << (high + itemBits - along)
}
