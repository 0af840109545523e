package tensorfile

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// want is a tensor to load: rows of the file's bytes, which lie at equal distances. A tensor that is not sliced, or only
// along its outermost axis, is one row.
type want struct {
	name    string
	s       *shard
	e       *entry
	dtype   core.DType // of the result
	shape   []int64    // of the result
	strides []int64    // of the result; nil means row-major

	first  int64 // position in the file of the first byte
	rows   int64
	run    int64 // bytes of a row
	stride int64 // bytes from one row to the next; run, if there is one row
	elems  int64 // elements of a row
	step   int64 // elements from one row to the next
	size   int64 // bytes of the result
	part   *part // nil if the tensor is whole

	g     *group // where the result lies; nil for a whole one
	to    int64  // its first byte in g
	index int    // in g.wants, if the builder has made g
	sum   sum
	done  *core.Tensor // a result that does not lie in a group
}

// part is the rows of a slice.
type part struct {
	axis     int
	from, to int64
}

// bytes returns how many bytes of the file the tensor takes.
func (w *want) bytes() int64 { return w.rows * w.run }

// converts reports whether the elements change their type.
func (w *want) converts() bool { return w.dtype != w.e.DType }

// plain reports whether the result is a range of the file as it is.
func (w *want) plain() bool { return w.rows == 1 && !w.converts() && !w.e.Swapped }

// end returns the position in the file after the last byte.
func (w *want) end() int64 { return w.first + (w.rows-1)*w.stride + w.run }

// at returns a fault for the tensor.
func (w *want) at() fault {
	return fault{format: w.s.file.format, call: "Load"}.in("tensor", w.name)
}

// match reports whether a name matches a glob, in which "*" matches "/", too.
func match(glob, name string) (bool, error) {
	plain := strings.NewReplacer("/", "\x00")
	return path.Match(plain.Replace(glob), plain.Replace(name))
}

// globs are patterns of names, with the number of names that each has matched.
type globs struct {
	patterns []string
	matched  []int
}

// find returns the first pattern that matches name, -1 if none does. It counts the name for all that do.
func (g *globs) find(name string) (int, error) {
	found := -1
	if g.matched == nil {
		g.matched = make([]int, len(g.patterns))
	}
	for i, p := range g.patterns {
		ok, err := match(p, name)
		if err != nil {
			return -1, loading.errorf(core.ErrInvalid, "the glob %s is malformed", quote(p))
		}
		if ok {
			g.matched[i]++
			if found < 0 {
				found = i
			}
		}
	}
	return found, nil
}

// unused returns an error for a pattern that no name has matched.
func (g *globs) unused() error {
	for i, p := range g.patterns {
		if g.matched == nil || g.matched[i] == 0 {
			return loading.errorf(core.ErrInvalid, "no tensor matches %s", quote(p))
		}
	}
	return nil
}

// choose lists the tensors to load in the order of the files.
func (l *loader) choose() error {
	l.allowed = make(map[[2]core.DType]bool)
	only := globs{patterns: l.options.Only}
	var sliced globs
	for _, s := range l.options.Slices {
		sliced.patterns = append(sliced.patterns, cmp.Or(s.Name, "*"))
	}
	seen := make(map[string]*shard)
	for _, s := range l.shards {
		unlisted := 0
		room := make([]want, 0, len(s.file.entries)) // one allocation for all
		l.wants = slices.Grow(l.wants, len(s.file.entries))
		for i := range s.file.entries {
			e := &s.file.entries[i]
			if s.wanted != nil && !s.wanted[e.Name] {
				unlisted++
				continue
			}
			s.found++
			if len(only.patterns) > 0 {
				if i, err := only.find(e.Name); err != nil {
					return err
				} else if i < 0 {
					continue
				}
			}
			i, err := sliced.find(e.Name)
			if err != nil {
				return err
			}
			if e.err != nil { // a member of an archive that is not a tensor
				if len(only.patterns) > 0 {
					return e.err
				}
				l.report.Refused = append(l.report.Refused, Refusal{e.Name, e.err.Error()})
				continue
			}
			if len(l.shards) > 1 {
				if seen[e.Name] != nil {
					return inTwo(e.Name, seen[e.Name].path, s.path, loading)
				}
				seen[e.Name] = s
			}
			room = append(room, want{name: e.Name, s: s, e: e})
			w := &room[len(room)-1]
			var by *Slice
			if i >= 0 {
				by = &l.options.Slices[i]
			}
			if err := w.shapeUp(by, l.options); err != nil {
				return err
			}
			if kind := [2]core.DType{w.dtype, e.DType}; w.converts() && !l.allowed[kind] {
				if err := w.checkConversion(); err != nil {
					return err
				}
				l.allowed[kind] = true
			}
			s.report.Tensors++
			l.wants = append(l.wants, w)
		}
		if s.found < len(s.wanted) {
			if err := checkWanted(s.path, s.wanted, &s.file.index, loading); err != nil {
				return err
			}
		}
		if unlisted > 0 {
			l.report.Refused = append(l.report.Refused, Refusal{s.path, "the index does not list all its tensors; the others were left out"})
		}
	}
	if err := only.unused(); err != nil {
		return err
	}
	return sliced.unused()
}

// shapeUp sets all fields but those of the place.
func (w *want) shapeUp(by *Slice, o LoadOptions) error {
	e := w.e
	w.dtype, w.shape = e.DType, e.Shape
	if o.DType != (core.DType{}) {
		w.dtype = o.DType
	}
	if by == nil && !w.converts() && w.s.file.format == Safetensors { // always row-major
		w.first, w.rows, w.run, w.stride, w.size = e.Offset, 1, e.Bytes, e.Bytes, e.Bytes
		w.elems = e.Bytes * 8 / (int64(e.DType.Bits) * int64(e.DType.Lanes))
		w.step = w.elems
		return nil
	}
	w.shape = slices.Clone(e.Shape)
	plain, err := w.at().layout(e.Shape, false)
	if err != nil {
		return err
	}
	columnMajor := !slices.Equal(plain.Strides(), e.Strides)
	// In the order of the bytes, from the outermost axis on.
	dims := slices.Clone(e.Shape)
	if columnMajor {
		slices.Reverse(dims)
	}
	w.rows, w.elems, w.first = 1, plain.NumElements(), e.Offset
	if by != nil {
		if err := w.cut(by, dims, columnMajor); err != nil {
			return err
		}
	}
	w.step = max(w.step, w.elems)
	bits := int64(e.DType.Bits) * int64(e.DType.Lanes)
	w.run, w.stride = (w.elems*bits+7)/8, w.step*bits/8
	to := int64(w.dtype.Bits) * int64(w.dtype.Lanes)
	if w.rows > 1 && (w.elems*bits%8 != 0 || w.step*bits%8 != 0 || w.elems*to%8 != 0) {
		return w.at().errorf(core.ErrNotSupported, "a part along axis %d would cut bytes that hold several elements", by.Axis)
	}
	result, err := w.at().layout(w.shape, columnMajor && !o.RowMajor)
	if err != nil {
		return err
	}
	if columnMajor && !o.RowMajor {
		w.strides = result.Strides()
	}
	if w.size, err = w.dtype.Size(result.NumElements(), false); err != nil {
		return err
	}
	return nil
}

// cut applies a slice. dims are the extents in the order of the bytes.
func (w *want) cut(by *Slice, dims []int64, columnMajor bool) error {
	if by.Axis >= len(dims) {
		return w.at().errorf(core.ErrLayout, "it has %d axes, and no axis %d to slice along: slice only tensors that have it, by their names", len(dims), by.Axis)
	}
	n := w.shape[by.Axis]
	from, to := by.Rows(n)
	w.shape[by.Axis] = to - from
	if from == 0 && to == n {
		return nil
	}
	w.part = &part{by.Axis, from, to}
	axis := by.Axis
	if columnMajor {
		axis = len(dims) - 1 - axis
	}
	inner := int64(1)
	for _, d := range dims[axis+1:] {
		inner *= d
	}
	for _, d := range dims[:axis] {
		w.rows *= d
	}
	w.elems, w.step = (to-from)*inner, n*inner
	if w.rows == 0 || w.elems == 0 { // the other products may have overflowed
		w.rows, w.elems, w.step = 1, 0, 0
		return nil
	}
	bits := int64(w.e.DType.Bits) * int64(w.e.DType.Lanes)
	if from*inner%8*bits%8 != 0 || w.rows == 1 && to*inner%8*bits%8 != 0 {
		return w.at().errorf(core.ErrNotSupported, "a part along axis %d would cut bytes that hold several elements", by.Axis)
	}
	w.first += from * inner / 8 * bits
	w.first += from * inner % 8 * bits / 8
	if w.rows == 1 {
		w.step = w.elems
	}
	return nil
}

// rowsOf returns ⌊i·n/count⌋, without overflow.
func rowsOf(i, count, n int64) int64 {
	return i*(n/count) + i*(n%count)/count
}

// checkConversion returns the error of a conversion that there is not.
func (w *want) checkConversion() error {
	var tensors [2]*core.Tensor
	for i, t := range []core.DType{w.dtype, w.e.DType} {
		x, err := core.Wrap(core.Memory{ID: core.CPU}, core.Spec{DType: t, Shape: []int64{0}})
		if err != nil {
			return w.at().errorf(err, "conversion")
		}
		defer func() { _ = x.Close() }()
		tensors[i] = x
	}
	if err := core.Convert(context.Background(), tensors[0], tensors[1]); err != nil {
		return w.at().errorf(err, "it cannot be loaded as %v", w.dtype)
	}
	return nil
}
