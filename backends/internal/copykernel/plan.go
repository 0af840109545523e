package copykernel

// axis is one loop of a copy: n elements, dst and src units apart. The unit
// is a byte in Copy and a bit in CopyBits.
type axis struct {
	n, dst, src int64
}

// inlineRank is the rank up to which a copy allocates nothing.
const inlineRank = 8

// normalise appends the loops of a copy to axes (an empty slice over the
// caller's array) in a form that only the geometry decides:
// no axis of extent 1, every destination stride positive, the outermost axis
// first, and axes that are one run in both tensors merged. Strides are
// multiplied by unit. dstOff and srcOff move the bases to the element that
// the first iteration of every loop visits. ok is false when there is nothing
// to copy.
func normalise(axes []axis, shape, dst, src []int64, unit int64) (_ []axis, dstOff, srcOff int64, ok bool) {
	for i, n := range shape {
		if n <= 0 {
			return nil, 0, 0, false
		}
		if n == 1 {
			continue
		}
		a := axis{n, dst[i] * unit, src[i] * unit}
		if a.dst < 0 {
			dstOff += (n - 1) * a.dst
			srcOff += (n - 1) * a.src
			a.dst, a.src = -a.dst, -a.src
		}
		axes = append(axes, a)
	}
	sortAxes(axes)
	return mergeAxes(axes), dstOff, srcOff, true
}

// sortAxes orders axes by falling destination stride, then falling source
// stride: an insertion sort, since ranks are small and it allocates nothing.
func sortAxes(axes []axis) {
	for i := 1; i < len(axes); i++ {
		for k := i; k > 0 && outranks(axes[k], axes[k-1]); k-- {
			axes[k], axes[k-1] = axes[k-1], axes[k]
		}
	}
}

func outranks(a, b axis) bool {
	if a.dst != b.dst {
		return a.dst > b.dst
	}
	return abs(a.src) > abs(b.src)
}

// mergeAxes joins neighbours that step through both tensors as one axis.
func mergeAxes(axes []axis) []axis {
	out := axes[:0]
	for _, a := range axes {
		if k := len(out) - 1; k >= 0 && out[k].dst == a.n*a.dst && out[k].src == a.n*a.src {
			a.n *= out[k].n
			out[k] = a
			continue
		}
		out = append(out, a)
	}
	return out
}

// widen takes an innermost axis that is contiguous in both tensors into the
// element: a row of a plain copy is then just a large element.
func widen(axes []axis, elem int64) ([]axis, int64) {
	if k := len(axes) - 1; k >= 0 && axes[k].dst == elem && axes[k].src == elem {
		return axes[:k], elem * axes[k].n
	}
	return axes, elem
}

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}

// schedule is the loop order of one worker's share:
//
//	for outer { for each block of run { for inner { move along run } } }
//
// or, when tile is set, outer loops around a two-dimensional transpose whose
// destination runs along run and whose source runs along cross.
type schedule struct {
	outer, inner []axis
	run, cross   axis
	elem, block  int64
	tile         bool
}

const (
	// minTile is the least extent of both axes of a pair worth tiling; below
	// it the longer axis is a better inner loop.
	minTile = 8
	// maxTileElem is the size from which an element fills a cache line by
	// itself, so that tiling has nothing to save.
	maxTileElem = 64
	// A source panel of at most cachedBytes stays in L2 from one run to the
	// next without tiles; for elements from cachedElem up that is faster.
	cachedBytes = 512 << 10
	cachedElem  = 4
	// minRun is the extent from which an axis carries an inner loop.
	minRun = 32
	// maxInner bounds the number of runs that share one block.
	maxInner = 64
	// blockBytes is how much of each tensor one block may touch, so that what
	// a run leaves in a cache line is still in L1 when the next run needs it.
	blockBytes = 12 << 10
)

// newSchedule orders axes, which normalise and widen made, for elements of
// elem bytes. It reorders axes in place and keeps parts of it.
func newSchedule(axes []axis, elem int64) schedule {
	run := len(axes) - 1
	cross := leastSrc(axes)
	if cross != run && worthTiling(axes[run], axes[cross], elem) {
		s := schedule{elem: elem, run: axes[run], cross: axes[cross], tile: true}
		s.outer = append(axes[:cross], axes[cross+1:run]...)
		return s
	}
	if axes[run].n < minRun {
		run = longest(axes)
	}
	s := schedule{elem: elem, run: axes[run], block: axes[run].n}
	rest := append(axes[:run], axes[run+1:]...)
	// What steps less far than the run in either tensor goes inside the block.
	volume, split := int64(1), len(rest)
	for k := len(rest) - 1; k >= 0; k-- {
		a := rest[k]
		nested := a.dst < s.run.dst || abs(a.src) < abs(s.run.src)
		if !nested || volume*a.n > maxInner {
			continue
		}
		volume *= a.n
		split--
		copy(rest[k:], rest[k+1:split+1])
		rest[split] = a
	}
	s.outer, s.inner = rest[:split], rest[split:]
	if volume > 1 {
		s.block = min(s.block, max(blockBytes/(volume*elem), minRun))
	}
	return s
}

// worthTiling says whether a transpose goes through tiles rather than along
// the run, once for each step of cross.
func worthTiling(run, cross axis, elem int64) bool {
	if run.src == 0 || elem > maxTileElem || run.n < minTile || cross.n < minTile {
		return false
	}
	return elem < cachedElem || run.n*abs(run.src) > cachedBytes
}

// leastSrc is the axis along which the source is read most densely, the
// innermost of equals. Broadcast axes read nothing and do not count.
func leastSrc(axes []axis) int {
	best := len(axes) - 1
	for k := best - 1; k >= 0; k-- {
		if axes[k].src != 0 && (axes[best].src == 0 || abs(axes[k].src) < abs(axes[best].src)) {
			best = k
		}
	}
	return best
}

// longest is the axis of the greatest extent, the innermost of equals.
func longest(axes []axis) int {
	best := len(axes) - 1
	for k := best - 1; k >= 0; k-- {
		if axes[k].n > axes[best].n {
			best = k
		}
	}
	return best
}
