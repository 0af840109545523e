//go:build webgpu && linux && cgo

package webgpu

import (
	"cmp"
	"math"
	"slices"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
)

// part is a part of a copy from a buffer whose elements the host picks: the device copies the bytes that they lie in, and some of those
// between them, to a buffer that is mapped.
type part struct {
	read copyplan.Copy // from the buffer to the mapped one, by the device
	pick copyplan.Copy // from there to the destination, by the host
	size int64         // of the mapped one
}

const (
	// largest is the size of a part, and of what is read for it, at most; leastPart is that of the smallest one.
	largest   = 4 * piece
	leastPart = 64 << 10
	// At most sparse times as many bytes are read as elements have.
	sparse = 16
	// A gap that is wider takes longer to copy than another step of the device takes.
	wideGap = 4 << 10
	// Steps for fewer bytes of elements are not faster than a shader of a processor.
	leastStep = 128
	// mostSteps bounds the steps of one submission, which keeps the lock of the device.
	mostSteps = 16 << 10
)

// picked divides a copy into parts, by what lies side by side on one side. The source has so many bytes. The result is empty if
// the device would read much more than the elements, or too few of them at a time.
func picked(c copyplan.Copy, side copyplan.Side, bytes int64) (best []part) {
	least := int64(math.MaxInt64) // what the device reads for best, and as much for each step as for a wide gap
	for size := int64(largest); size >= leastPart && (size >= piece || best == nil); size /= 4 {
		var list []part
		cost := int64(0)
		for chunk := range c.Chunks(side, size) {
			p, ok := pick(chunk)
			if !ok || p.read.Range().SrcHigh > bytes {
				list = nil
				break
			}
			list = append(list, p)
			cost += p.size + wideGap*p.read.Count()
		}
		// Of smaller parts, the host picks one while the device reads the next.
		if list != nil && cost/9*8 < least {
			best, least = list, cost
		}
	}
	return best
}

// pick plans a part. Of the source, the innermost axes up to the first wide gap are read at once, and the others step by step.
func pick(c copyplan.Copy) (p part, ok bool) {
	p.pick = copyplan.Copy{Elem: c.Elem, Dst: c.Dst, Axes: slices.Clone(c.Axes)}
	axes := make([]*copyplan.Axis, len(c.Axes)) // innermost first
	for i := range axes {
		axes[i] = &p.pick.Axes[i]
	}
	slices.SortFunc(axes, func(a, b *copyplan.Axis) int { return cmp.Compare(distance(a), distance(b)) })
	elements, reach := c.Elem, c.Elem // bytes of the source: that are copied, and from the first to the last of them
	atOnce := 0
	for ; atOnce < len(axes); atOnce++ {
		a := axes[atOnce]
		all, end := elements*a.N, reach+(a.N-1)*distance(a)
		if distance(a)-reach > wideGap || end > sparse*all {
			break
		}
		elements, reach = all, end
	}
	low := c.Range().SrcLow
	skew := low % unit
	p.size = words(skew + reach)
	p.read = copyplan.Copy{Elem: p.size, Src: low - skew}
	for _, a := range axes[atOnce:] {
		step := distance(a)
		if step%unit != 0 || step < reach {
			return p, false
		}
		p.read.Axes = slices.Insert(p.read.Axes, 0, copyplan.Axis{N: a.N, Dst: p.size, Src: step})
		reach += (a.N - 1) * step
		if a.Src < 0 {
			a.Src = -p.size
		} else {
			a.Src = p.size
		}
		p.size *= a.N
	}
	// The first element may be the last one in the source.
	p.pick.Src = skew
	for _, a := range p.pick.Axes {
		p.pick.Src -= min(0, a.Src) * (a.N - 1)
	}
	n := p.read.Count()
	return p, p.size <= largest && n <= mostSteps && (n <= fewPieces || elements >= leastStep)
}

// words returns n, rounded up to whole words.
func words(n int64) int64 { return (n + unit - 1) &^ (unit - 1) }

// distance returns how far the steps of an axis are apart in the source.
func distance(a *copyplan.Axis) int64 { return max(a.Src, -a.Src) }
