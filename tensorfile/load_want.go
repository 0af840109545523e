package tensorfile

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// want is a tensor to load. There may be very many, so that it is small.
type want struct {
	s    *shard
	e    *entry
	cut  *cut         // nil if the tensor is to be loaded as it is, and lies in row-major order
	g    *group       // where the result lies; nil for a whole one
	to   int64        // its first byte in g
	done *core.Tensor // a result that does not lie in a group
}

// cut is what becomes of a tensor that is not loaded as it is, or whose checksum is computed: rows of the file's bytes,
// which lie at equal distances. A tensor that is not sliced, or only along its outermost axis, is one row.
type cut struct {
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
	sum    sum
}

// part is the rows of a slice.
type part struct {
	axis     int
	from, to int64
}

// asCut returns the cut, of a tensor that is loaded as it is a new one.
func (w *want) asCut() *cut {
	if w.cut != nil {
		return w.cut
	}
	e := w.e
	elems := e.Bytes * 8 / (int64(e.DType.Bits) * int64(e.DType.Lanes))
	return &cut{
		dtype: e.DType, shape: e.Shape(), first: e.Offset, rows: 1, run: e.Bytes, stride: e.Bytes, elems: elems, step: elems, size: e.Bytes,
	}
}

// spec returns what the result is.
func (w *want) spec() core.Spec {
	if c := w.cut; c != nil {
		return core.Spec{DType: c.dtype, Shape: c.shape, Strides: c.strides}
	}
	return core.Spec{DType: w.e.DType, Shape: w.e.Shape()}
}

// bytes returns how many bytes of the file the tensor takes.
func (w *want) bytes() int64 {
	if c := w.cut; c != nil {
		return c.rows * c.run
	}
	return w.e.Bytes
}

// size returns how many bytes the result has.
func (w *want) size() int64 {
	if c := w.cut; c != nil {
		return c.size
	}
	return w.e.Bytes
}

// first returns the position in the file of the first byte.
func (w *want) first() int64 {
	if c := w.cut; c != nil {
		return c.first
	}
	return w.e.Offset
}

// end returns the position in the file after the last byte.
func (w *want) end() int64 {
	if c := w.cut; c != nil {
		return c.first + (c.rows-1)*c.stride + c.run
	}
	return w.e.Offset + w.e.Bytes
}

// dtype returns the element type of the result.
func (w *want) dtype() core.DType {
	if c := w.cut; c != nil {
		return c.dtype
	}
	return w.e.DType
}

// converts reports whether the elements change their type.
func (w *want) converts() bool { return w.cut != nil && w.cut.dtype != w.e.DType }

// plain reports whether the result is a range of the file as it is.
func (w *want) plain() bool { return w.cut == nil || w.cut.rows == 1 && !w.converts() && !w.e.Swapped }

// at returns a fault for the tensor.
func (w *want) at() fault {
	return fault{format: w.s.file.format, call: "Load"}.in("tensor", w.e.Name)
}

// Match reports whether the name of a tensor matches a glob, as those of [LoadOptions]: one of package path, except that "*" and "?"
// match "/", too. It returns path.ErrBadPattern if the glob is malformed.
func Match(glob, name string) (bool, error) {
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
		ok, err := Match(p, name)
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
					if name, repeats := s.file.index.build(); repeats { // as Open says it
						return s.repeated(name)
					}
					return inTwo(e.Name, seen[e.Name].path, s.path, loading)
				}
				seen[e.Name] = s
			}
			room = append(room, want{s: s, e: e})
			w := &room[len(room)-1]
			var by *Slice
			if i >= 0 {
				by = &l.options.Slices[i]
			}
			if err := w.shapeUp(by, &l.options); err != nil {
				return err
			}
			if kind := [2]core.DType{w.dtype(), e.DType}; w.converts() && !l.allowed[kind] {
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

// shapeUp sets the cut.
func (w *want) shapeUp(by *Slice, o *LoadOptions) error {
	e := w.e
	if by == nil && (o.DType == core.DType{} || o.DType == e.DType) && w.s.file.format == Safetensors { // always row-major
		if o.Checksum != NoChecksum {
			w.cut = w.asCut()
		}
		return nil
	}
	w.cut = &cut{dtype: cmp.Or(o.DType, e.DType)}
	return w.cut.shapeUp(w, by, o)
}

// shapeUp sets all fields but the type.
func (c *cut) shapeUp(w *want, by *Slice, o *LoadOptions) error {
	e := w.e
	c.shape = slices.Clone(e.Shape())
	plain, err := w.at().layout(e.Shape(), false)
	if err != nil {
		return err
	}
	columnMajor := !slices.Equal(plain.Strides(), e.Strides())
	// In the order of the bytes, from the outermost axis on.
	dims := slices.Clone(e.Shape())
	if columnMajor {
		slices.Reverse(dims)
	}
	c.rows, c.elems, c.first = 1, plain.NumElements(), e.Offset
	if by != nil {
		if err := c.slice(w, by, dims, columnMajor); err != nil {
			return err
		}
	}
	c.step = max(c.step, c.elems)
	bits := int64(e.DType.Bits) * int64(e.DType.Lanes)
	c.run, c.stride = (c.elems*bits+7)/8, c.step*bits/8
	to := int64(c.dtype.Bits) * int64(c.dtype.Lanes)
	if c.rows > 1 && (c.elems*bits%8 != 0 || c.step*bits%8 != 0 || c.elems*to%8 != 0) {
		return w.at().errorf(core.ErrNotSupported, "a part along axis %d would cut bytes that hold several elements", by.Axis)
	}
	result, err := w.at().layout(c.shape, columnMajor && !o.RowMajor)
	if err != nil {
		return err
	}
	if columnMajor && !o.RowMajor {
		c.strides = result.Strides()
	}
	if c.size, err = c.dtype.Size(result.NumElements(), false); err != nil {
		return err
	}
	return nil
}

// slice applies a slice. dims are the extents in the order of the bytes.
func (c *cut) slice(w *want, by *Slice, dims []int64, columnMajor bool) error {
	if by.Axis >= len(dims) {
		return w.at().errorf(core.ErrLayout, "it has %d axes, and no axis %d to slice along: slice only tensors that have it, by their names", len(dims), by.Axis)
	}
	n := c.shape[by.Axis]
	from, to := by.Rows(n)
	c.shape[by.Axis] = to - from
	if from == 0 && to == n {
		return nil
	}
	c.part = &part{by.Axis, from, to}
	axis := by.Axis
	if columnMajor {
		axis = len(dims) - 1 - axis
	}
	inner := int64(1)
	for _, d := range dims[axis+1:] {
		inner *= d
	}
	for _, d := range dims[:axis] {
		c.rows *= d
	}
	c.elems, c.step = (to-from)*inner, n*inner
	if c.rows == 0 || c.elems == 0 { // the other products may have overflowed
		c.rows, c.elems, c.step = 1, 0, 0
		return nil
	}
	bits := int64(w.e.DType.Bits) * int64(w.e.DType.Lanes)
	if from*inner%8*bits%8 != 0 || c.rows == 1 && to*inner%8*bits%8 != 0 {
		return w.at().errorf(core.ErrNotSupported, "a part along axis %d would cut bytes that hold several elements", by.Axis)
	}
	c.first += from * inner / 8 * bits
	c.first += from * inner % 8 * bits / 8
	if c.rows == 1 {
		c.step = c.elems
	}
	return nil
}

// rowsOf returns ⌊i·n/count⌋, without overflow.
func rowsOf(i, count, n int64) int64 {
	return i*(n/count) + i*(n%count)/count
}

// checkConversion returns the error of a conversion that there is not.
func (w *want) checkConversion() error { return tryConversion(w.at(), w.dtype(), w.e.DType) }

// tryConversion returns the error of a conversion that there is not.
func tryConversion(at fault, to, from core.DType) error {
	var tensors [2]*core.Tensor
	for i, t := range []core.DType{to, from} {
		x, err := core.Wrap(core.Memory{ID: core.CPU}, core.Spec{DType: t, Shape: []int64{0}})
		if err != nil {
			return at.errorf(err, "conversion")
		}
		defer func() { _ = x.Close() }()
		tensors[i] = x
	}
	if err := core.Convert(context.Background(), tensors[0], tensors[1]); err != nil {
		return at.errorf(err, "it cannot be loaded as %v", to)
	}
	return nil
}
