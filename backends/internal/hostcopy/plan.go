package hostcopy

import "github.com/dlx-go/dlx/backends/internal/copyplan"

// axis is one loop of a copy: N elements, Dst and Src units apart. The unit is a
// byte in Copy and a bit in CopyBits.
type axis = copyplan.Axis

// inlineRank is the rank up to which a copy allocates nothing.
const inlineRank = 8

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

// newSchedule orders the axes of a copy whose pieces are elem bytes. It reorders
// them in place and keeps parts of the slice.
func newSchedule(axes []axis, elem int64) schedule {
	run := len(axes) - 1
	cross := leastSrc(axes)
	if cross != run && worthTiling(axes[run], axes[cross], elem) {
		s := schedule{elem: elem, run: axes[run], cross: axes[cross], tile: true}
		s.outer = append(axes[:cross], axes[cross+1:run]...)
		return s
	}
	if axes[run].N < minRun {
		run = longest(axes)
	}
	s := schedule{elem: elem, run: axes[run], block: axes[run].N}
	rest := append(axes[:run], axes[run+1:]...)
	// What steps less far than the run in either tensor goes inside the block.
	volume, split := int64(1), len(rest)
	for k := len(rest) - 1; k >= 0; k-- {
		a := rest[k]
		nested := a.Dst < s.run.Dst || abs(a.Src) < abs(s.run.Src)
		if !nested || volume*a.N > maxInner {
			continue
		}
		volume *= a.N
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
	if run.Src == 0 || elem > maxTileElem || run.N < minTile || cross.N < minTile {
		return false
	}
	return elem < cachedElem || run.N*abs(run.Src) > cachedBytes
}

// leastSrc is the axis along which the source is read most densely, the
// innermost of equals. Broadcast axes read nothing and do not count.
func leastSrc(axes []axis) int {
	best := len(axes) - 1
	for k := best - 1; k >= 0; k-- {
		if axes[k].Src != 0 && (axes[best].Src == 0 || abs(axes[k].Src) < abs(axes[best].Src)) {
			best = k
		}
	}
	return best
}

// longest is the axis of the greatest extent, the innermost of equals.
func longest(axes []axis) int {
	best := len(axes) - 1
	for k := best - 1; k >= 0; k-- {
		if axes[k].N > axes[best].N {
			best = k
		}
	}
	return best
}

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}
