package gpuconvert

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/core"
)

const (
	// MaxAxes is the number of axes of a dispatch, beside that of the channels.
	MaxAxes = 4
	// MaxChannels is how many elements along the axis of the channels an invocation converts.
	MaxChannels = 4
	// MaxNumbers is how many numbers a Scale or an Offset may have. Each dispatch has those of MaxChannels indices, or of
	// one if they lie far apart, and all dispatches are prepared at once. Where there are more, the host converts.
	MaxNumbers = 4096
	// MaxDispatches is how many dispatches a conversion may have: those of MaxNumbers that lie far apart. Axes beyond MaxAxes
	// that do not merge with others need many, too. The host converts where there would be more.
	MaxDispatches = MaxNumbers
	// GroupSize is how many invocations a group has.
	GroupSize = 64
)

// Constants are what a dispatch tells the kernel, in the layout that it reads. Firsts and steps count elements,
// from the start of the windows; axis 0 is the innermost.
type Constants struct {
	DstFirst, SrcFirst     int32
	Count                  uint32 // of the elements without the axis of the channels
	Kinds                  uint32 // of the types: the source's in the lowest 4 bits, the destination's in the next 4; the others are 0
	Channels               uint32
	ChannelDst, ChannelSrc int32
	N                      [MaxAxes]uint32
	DstStep, SrcStep       [MaxAxes]int32
	Scale, Offset          [MaxChannels]float32
}

// Types returns the element types. It reports false for constants that are not those of a dispatch.
func (k *Constants) Types() (dst, src core.DType, ok bool) {
	to, from := int(k.Kinds>>4), int(k.Kinds&15)
	if to >= len(destinations) || from >= len(sources) {
		return dst, src, false
	}
	return destinations[to], sources[from], true
}

// Window is a range of a buffer, in bytes.
type Window struct{ Offset, Size int64 }

// Dispatch is one launch of the kernel.
type Dispatch struct {
	Dst, Src  Window
	Constants Constants
	Groups    uint32
}

// Limits are the properties of a device that [Plan] needs. OpenCL has none.
type Limits struct {
	Range     int64  // bytes of a window
	Alignment int64  // of the offset of a window, a power of two, at least 4
	Groups    uint32 // of a dispatch
}

var (
	sources      = []core.DType{core.TypeUint8, core.TypeInt8, core.TypeUint16, core.TypeInt16}
	destinations = []core.DType{core.TypeFloat32, core.TypeFloat16, core.TypeBFloat16, core.TypeUint8, core.TypeInt8, core.TypeUint16, core.TypeInt16}
)

// firstInteger is the index of the first destination that is not a float.
const firstInteger = 3

// Supports returns nil if the kernel converts elements of src to dst with a scaling and the bits of the host, and
// otherwise the reason why not. backend is the name of the caller's backend.
func Supports(backend string, dst, src core.DType, s core.Scaling) error {
	refuse := func(format string, args ...any) error {
		return core.Errorf(core.ErrNotSupported, backend, "CanConvert", format, args...)
	}
	to := slices.Index(destinations, dst)
	switch {
	case !slices.Contains(sources, src):
		return refuse("the kernel converts integers of 8 and 16 bits, not %v", src)
	case to < 0:
		return refuse("the kernel converts to floating-point types and integers of at most 32 and 16 bits, not to %v", dst)
	case to >= firstInteger && s.IsZero():
		return refuse("the kernel scales in float32, and a conversion from %v to %v that does not scale wraps around", src, dst)
	}
	for _, list := range [][]float32{s.Scale, s.Offset} {
		if n := len(list); n > MaxNumbers {
			return refuse("there are factors or offsets of %d channels, and at most %d are supported: each dispatch of the kernel has those of %d", n, MaxNumbers, MaxChannels)
		}
		for _, x := range list {
			if m := math.Abs(float64(x)); m != 0 && (m < 0x1p-100 || m > 0x1p100) {
				return refuse("a factor or offset of %v may give numbers that devices round in different ways", x)
			}
		}
	}
	return nil
}

// CanConvert is the method of core.Converter for a device with the properties p: it fails with ErrNotSupported if p lacks
// core.CapConvert, or with the error of [Supports].
func CanConvert(p *core.Properties, dst, src core.DType, s core.Scaling) error {
	if err := p.Require(core.CapConvert, "CanConvert"); err != nil {
		return err
	}
	return Supports(p.ID.Type.BackendName(), dst, src, s)
}

// conversion is a conversion in bytes. The axis of the channels is apart.
type conversion struct {
	kinds         uint32
	dst, src      int64 // bytes of an element
	axes          copyplan.Copy
	channel       copyplan.Axis
	scaling       core.Scaling
	hasManyScales bool // one for each channel
}

// newConversion describes what [Supports] admits.
func newConversion(dst, src *core.Tensor, s core.Scaling) conversion {
	c := conversion{
		kinds: uint32(slices.Index(sources, src.DType()) | slices.Index(destinations, dst.DType())<<4),
		dst:   int64(dst.DType().Bits) / 8, src: int64(src.DType().Bits) / 8, scaling: s,
		hasManyScales: max(len(s.Scale), len(s.Offset)) > 1,
	}
	c.channel = copyplan.Axis{N: 1}
	c.axes = copyplan.Copy{Elem: 4, Dst: dst.Offset(), Src: src.Offset()} // of the larger one
	for i, n := range dst.Shape() {
		a := copyplan.Axis{N: n, Dst: dst.Layout().Stride(i) * c.dst, Src: src.Layout().Stride(i) * c.src}
		switch {
		case n == 1:
		case c.hasManyScales && i == s.Axis:
			c.channel = a
		default:
			if a.Dst < 0 { // in the other order
				c.axes.Dst, c.axes.Src = c.axes.Dst+(n-1)*a.Dst, c.axes.Src+(n-1)*a.Src
				a.Dst, a.Src = -a.Dst, -a.Src
			}
			c.axes.Axes = append(c.axes.Axes, a)
		}
	}
	axes := c.axes.Axes
	slices.SortStableFunc(axes, func(a, b copyplan.Axis) int { return cmp.Compare(b.Dst, a.Dst) })
	if !c.hasManyScales { // an invocation takes the elements that lie side by side in the source
		i := slices.IndexFunc(axes, func(a copyplan.Axis) bool { return a.N <= MaxChannels && (a.Src == c.src || a.Src == -c.src) })
		if i >= 0 {
			c.channel = axes[i]
			axes = slices.Delete(axes, i, i+1)
		}
	}
	merged := axes[:0]
	for _, a := range axes {
		if i := len(merged) - 1; i >= 0 && merged[i].Dst == a.Dst*a.N && merged[i].Src == a.Src*a.N {
			merged[i] = copyplan.Axis{N: merged[i].N * a.N, Dst: a.Dst, Src: a.Src}
			continue
		}
		merged = append(merged, a)
	}
	c.axes.Axes = merged
	return c
}

// Plan divides a conversion, which [Supports] admits and has elements, into dispatches that do not depend on each
// other. The offsets of the tensors count from the start of their buffers. Plan fails with ErrNotSupported if there would
// be more than [MaxDispatches]. Callers call it before they enqueue anything. The dispatches do not refer to the numbers of s.
func Plan(dst, src *core.Tensor, s core.Scaling, l Limits) ([]Dispatch, error) {
	c := newConversion(dst, src, s)
	reach := min(l.Range, 1<<31) - 2*l.Alignment
	group := int64(MaxChannels)
	if span := (min(group, c.channel.N) - 1) * max(c.channel.Dst, -c.channel.Dst, c.channel.Src, -c.channel.Src); span > reach/2 {
		group = 1
	} else {
		reach -= span
	}
	axes, atLeast := len(c.axes.Axes), c.atLeast(group)
	tooMany := func() ([]Dispatch, error) {
		why := "its parts and channels are too many"
		if axes > MaxAxes && atLeast > MaxDispatches {
			why = fmt.Sprintf("%d of its axes do not merge: use Contiguous first", axes)
		}
		return nil, core.Errorf(core.ErrNotSupported, dst.DeviceID().Type.BackendName(), "ConvertOn",
			"the conversion needs more than %d launches of the kernel, since %s", MaxDispatches, why)
	}
	if atLeast > MaxDispatches {
		return tooMany()
	}
	var list []Dispatch
	for first := int64(0); first < c.channel.N; first += group {
		part := c.axes
		part.Dst += first * c.channel.Dst
		part.Src += first * c.channel.Src
		for p := range part.Split(copyplan.Limits{Rank: MaxAxes, Count: 1 << 31, Reach: reach}) {
			if len(list) == MaxDispatches {
				return tooMany()
			}
			list = append(list, c.dispatch(p, first, min(group, c.channel.N-first), l))
		}
	}
	return list, nil
}

// atLeast returns how many dispatches, with a group of channels each, the conversion needs at least: a dispatch has no
// more steps than the MaxAxes longest axes have. The result is above MaxDispatches, and may be too low, where it is large.
func (c *conversion) atLeast(group int64) int64 {
	lengths := make([]int64, len(c.axes.Axes))
	for i, a := range c.axes.Axes {
		lengths[i] = a.N
	}
	slices.Sort(lengths)
	n := (c.channel.N-1)/group + 1
	for _, length := range lengths[:max(len(lengths)-MaxAxes, 0)] {
		if n *= length; n > MaxDispatches {
			break
		}
	}
	return n
}

// dispatch makes the dispatch of a part and some of its channels.
func (c *conversion) dispatch(p copyplan.Copy, first, channels int64, l Limits) Dispatch {
	d := Dispatch{}
	k := &d.Constants
	k.Kinds, k.Channels, k.Count = c.kinds, uint32(channels), 1
	k.ChannelDst, k.ChannelSrc = int32(c.channel.Dst/c.dst), int32(c.channel.Src/c.src)
	if channels == 1 { // the step may be anything
		k.ChannelDst, k.ChannelSrc = 0, 0
	}
	for i := range k.Scale {
		at := first + min(int64(i), channels-1)
		if !c.hasManyScales {
			at = 0
		}
		k.Scale[i], k.Offset[i] = c.scaling.At(int(at))
	}
	dst, src := extent{p.Dst, p.Dst + c.dst}, extent{p.Src, p.Src + c.src}
	for i := range k.N {
		a := copyplan.Axis{N: 1}
		if at := len(p.Axes) - 1 - i; at >= 0 {
			a = p.Axes[at]
		}
		k.N[i], k.DstStep[i], k.SrcStep[i] = uint32(a.N), int32(a.Dst/c.dst), int32(a.Src/c.src)
		k.Count *= uint32(a.N)
		dst.add((a.N - 1) * a.Dst)
		src.add((a.N - 1) * a.Src)
	}
	dst.add((channels - 1) * c.channel.Dst)
	src.add((channels - 1) * c.channel.Src)
	d.Dst, d.Src = dst.window(l.Alignment), src.window(l.Alignment)
	k.DstFirst, k.SrcFirst = int32((p.Dst-d.Dst.Offset)/c.dst), int32((p.Src-d.Src.Offset)/c.src)
	d.Groups = min((k.Count-1)/GroupSize+1, l.Groups)
	return d
}

// extent is the bytes from low to high.
type extent struct{ low, high int64 }

func (e *extent) add(way int64) {
	e.low, e.high = e.low+min(way, 0), e.high+max(way, 0)
}

// window is the aligned range around an extent, which ends at a multiple of 4.
func (e *extent) window(alignment int64) Window {
	low := e.low &^ (alignment - 1)
	return Window{low, (e.high+3)&^3 - low}
}
