package core_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// naive is a view by the meaning of its operations alone: what lies at an index
// is found by asking the view that it was made of.
type naive struct {
	shape []int64
	at    func(index []int64) int64
}

// cells lists where the elements lie, in row-major order.
func (v naive) cells() []int64 {
	out := []int64{}
	index := make([]int64, len(v.shape))
	var visit func(axis int)
	visit = func(axis int) {
		if axis == len(index) {
			out = append(out, v.at(slices.Clone(index)))
			return
		}
		for index[axis] = 0; index[axis] < v.shape[axis]; index[axis]++ {
			visit(axis + 1)
		}
	}
	visit(0)
	return out
}

// listed is the view whose elements lie in row-major order where cells says.
func listed(shape, cells []int64) naive {
	return naive{shape, func(index []int64) int64 {
		n := int64(0)
		for axis, i := range index {
			n = n*shape[axis] + i
		}
		return cells[n]
	}}
}

// strided reports whether some strides reach the elements of the view.
func (v naive) strided() bool {
	cells := v.cells()
	if len(cells) == 0 {
		return true
	}
	strides := make([]int64, len(v.shape))
	for axis, extent := range v.shape {
		if extent > 1 {
			index := make([]int64, len(v.shape))
			index[axis] = 1
			strides[axis] = v.at(index) - cells[0]
		}
	}
	return slices.Equal(cells, naive{v.shape, func(index []int64) int64 {
		cell := cells[0]
		for axis, i := range index {
			cell += i * strides[axis]
		}
		return cell
	}}.cells())
}

// operation applies one random operation to a layout and to its naive twin.
func operation(r *rand.Rand, l core.Layout, v naive) (string, core.Layout, int64, naive, error) {
	rank := l.Rank()
	axis := r.IntN(rank + 1)
	switch r.IntN(7) {
	case 0:
		axes := r.Perm(rank)
		shape := make([]int64, rank)
		for i, a := range axes {
			shape[i] = v.shape[a]
		}
		got, err := l.Permute(axes...)
		return "Permute", got, 0, naive{shape, func(index []int64) int64 {
			old := make([]int64, rank)
			for i, a := range axes {
				old[a] = index[i]
			}
			return v.at(old)
		}}, err
	case 1:
		start, stop, step := r.Int64N(6)-1, r.Int64N(7)-1, r.Int64N(7)-3
		got, by, err := l.Slice(axis, start, stop, step)
		if err != nil {
			return "Slice", got, by, v, err
		}
		shape, count := slices.Clone(v.shape), int64(0)
		for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
			count++
		}
		shape[axis] = count
		return "Slice", got, by, naive{shape, func(index []int64) int64 {
			index[axis] = start + index[axis]*step
			return v.at(index)
		}}, nil
	case 2:
		i := r.Int64N(6) - 1
		got, by, err := l.Index(axis, i)
		if err != nil {
			return "Index", got, by, v, err
		}
		return "Index", got, by, naive{slices.Delete(slices.Clone(v.shape), axis, axis+1), func(index []int64) int64 {
			return v.at(slices.Insert(index, axis, i))
		}}, nil
	case 3:
		got, err := l.Expand(axis)
		return "Expand", got, 0, naive{slices.Insert(slices.Clone(v.shape), axis, 1), func(index []int64) int64 {
			return v.at(slices.Delete(index, axis, axis+1))
		}}, err
	case 4:
		got, err := l.Squeeze()
		shape := slices.DeleteFunc(slices.Clone(v.shape), func(extent int64) bool { return extent == 1 })
		return "Squeeze", got, 0, listed(shape, v.cells()), err
	case 5:
		shape := slices.Clone(v.shape)
		for i, extent := range shape {
			if extent == 1 {
				shape[i] = r.Int64N(4)
			}
		}
		lead := r.IntN(2)
		shape = slices.Concat([]int64{2, 2}[:lead], shape)
		got, err := l.Broadcast(shape...)
		return "Broadcast", got, 0, naive{shape, func(index []int64) int64 {
			index = index[lead:]
			for i, extent := range v.shape {
				if extent == 1 {
					index[i] = 0
				}
			}
			return v.at(index)
		}}, err
	}
	// A shape of as many elements: merge all, then split some off.
	rest := l.NumElements()
	shape := []int64{}
	for range r.IntN(4) {
		if d := 1 + r.Int64N(4); rest%d == 0 {
			shape, rest = append(shape, d), rest/d
		}
	}
	shape = append(shape, rest)
	got, err := l.Reshape(shape...)
	return "Reshape", got, 0, listed(shape, v.cells()), err
}

// Every chain of views reaches exactly the elements that the same chain does by
// the meaning of its operations, and a reshape is refused only where no strides
// could be the result.
func TestChainsOfViewsReachTheRightElements(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		shape := make([]int64, r.IntN(4))
		for i := range shape {
			shape[i] = r.Int64N(5)
		}
		l, at := layout(t, shape, nil), int64(0)
		cells := make([]int64, l.NumElements())
		for i := range cells {
			cells[i] = int64(i)
		}
		v := listed(shape, cells)
		for range r.IntN(7) {
			if l.NumElements() > 1000 || l.Rank() > 6 {
				break
			}
			name, got, by, want, err := operation(r, l, v)
			if err != nil {
				if !errors.Is(err, core.ErrLayout) || name == "Reshape" && want.strided() {
					t.Fatalf("%s of %v %v to %v: %v", name, l.Shape(), l.Strides(), want.shape, err)
				}
				continue
			}
			l, at, v = got, at+by, want
			if !slices.Equal(l.Shape(), v.shape) {
				t.Fatalf("%s gives shape %v, want %v", name, l.Shape(), v.shape)
			}
			cells, low, high := v.cells(), int64(0), int64(0)
			if len(cells) > 0 {
				low, high = slices.Min(cells)-at, slices.Max(cells)-at+1
			}
			if gotLow, gotHigh := l.Extent(); gotLow != low || gotHigh != high {
				t.Fatalf("%s: extent %d..%d, want %d..%d", name, gotLow, gotHigh, low, high)
			}
			if len(cells) > 0 && !slices.Equal(offsets(l, at), cells) {
				t.Fatalf("%s: shape %v strides %v from %d does not reach %v", name, l.Shape(), l.Strides(), at, cells)
			}
		}
	}
}
