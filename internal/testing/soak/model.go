package soak

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
)

// memory is what the bytes of a piece of memory must be, by value. Every tensor on
// the same bytes, under whichever name, refers to one memory.
type memory struct {
	kind     Kind
	data     []byte
	unknown  []bool               // bytes that may hold anything; nil if there are none
	failed   *core.Buffer         // the last write failed, as the program wanted, and this keeps the order that knows
	tainted  bool                 // some work on it failed or was given up: later work may tell
	frozen   bool                 // all threads have it, for reading
	multi    bool                 // it has names whose order dlx does not know to be one
	names    atomic.Int32         // tensors that are open
	file     *core.ExternalMemory // that it is, of a memfd
	fileName string               // in the program
	told     bool                 // the first name tells the file
	hidden   bool                 // some names for it are known to the kernel alone: dlx cannot order or compare them

	mu    sync.Mutex
	notes []note
}

// note is work on a memory that was enqueued through one of its names.
type note struct {
	root *core.Buffer
	work core.Event
}

func newMemory(kind Kind, data []byte) *memory { return &memory{kind: kind, data: slices.Clone(data)} }

// place is a tensor as the model sees it: elements of a memory. Where they lie is
// counted in bits, so that one arithmetic serves packed elements too.
type place struct {
	mem      *memory
	dtype    core.DType
	padded   bool
	readOnly bool
	bit      int64 // of the first element
	shape    []int64
	strides  []int64 // in elements
}

// width is the distance in bits of two neighbouring elements.
func (p *place) width() int64 {
	if p.padded && p.dtype.SubByte() {
		return 8 * int64(p.dtype.Lanes)
	}
	return p.dtype.ElementBits()
}

// packed reports whether elements are no whole bytes.
func (p *place) packed() bool { return p.width()%8 != 0 }

func (p *place) elements() int64 { return product(p.shape) }

func product(shape []int64) int64 {
	n := int64(1)
	for _, extent := range shape {
		n *= extent
	}
	return n
}

// rowMajor gives the strides of a shape in row-major order.
func rowMajor(shape []int64) []int64 {
	strides := make([]int64, len(shape))
	step := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = step
		step *= shape[i]
	}
	return strides
}

// each calls f with the bit at which each element begins, in row-major order.
func (p *place) each(f func(bit int64)) {
	if p.elements() == 0 {
		return
	}
	index := make([]int64, len(p.shape))
	width, bit := p.width(), p.bit
	for {
		f(bit)
		axis := len(index) - 1
		for ; axis >= 0; axis-- {
			index[axis]++
			bit += p.strides[axis] * width
			if index[axis] < p.shape[axis] {
				break
			}
			bit -= p.shape[axis] * p.strides[axis] * width
			index[axis] = 0
		}
		if axis < 0 {
			return
		}
	}
}

// reach is the range of bytes from the first to the last that an element touches.
func (p *place) reach() (low, high int64) {
	if p.elements() == 0 {
		return 0, 0
	}
	first, last := p.bit, p.bit
	for i, extent := range p.shape {
		span := (extent - 1) * p.strides[i] * p.width()
		first, last = first+min(span, 0), last+max(span, 0)
	}
	return first >> 3, (last + p.width() + 7) >> 3
}

// repeats reports whether elements are repeated by a stride of 0.
func (p *place) repeats() bool {
	for i, extent := range p.shape {
		if extent > 1 && p.strides[i] == 0 {
			return p.elements() > 0
		}
	}
	return false
}

// touches reports whether two places reach over common bytes.
func (p *place) touches(q *place) bool {
	if p.mem != q.mem || p.elements() == 0 || q.elements() == 0 {
		return false
	}
	pl, ph := p.reach()
	ql, qh := q.reach()
	return pl < qh && ql < ph
}

// values are elements in row-major order, each in a whole number of bytes.
type values struct {
	item    int64 // bytes of an element
	data    []byte
	unknown []bool // by element; nil if all are known
}

// read takes the elements out, by value.
func (p *place) read() values {
	width := p.width()
	v := values{item: (width + 7) / 8}
	v.data = make([]byte, 0, p.elements()*v.item)
	if p.mem.unknown != nil {
		v.unknown = make([]bool, 0, p.elements())
	}
	p.each(func(bit int64) {
		low, high := bit>>3, (bit+width+7)>>3
		if width%8 == 0 {
			v.data = append(v.data, p.mem.data[low:high]...)
		} else {
			element := make([]byte, v.item)
			copyBits(element, 0, p.mem.data, bit, width)
			v.data = append(v.data, element...)
		}
		if p.mem.unknown != nil {
			v.unknown = append(v.unknown, slices.Contains(p.mem.unknown[low:high], true))
		}
	})
	return v
}

// write puts elements in, as read has taken them out.
func (p *place) write(v values) {
	width, i := p.width(), int64(0)
	p.each(func(bit int64) {
		low, high := bit>>3, (bit+width+7)>>3
		if width%8 == 0 {
			copy(p.mem.data[low:high], v.data[i*v.item:])
		} else {
			copyBits(p.mem.data, bit, v.data[i*v.item:], 0, width)
		}
		unknown := v.unknown != nil && v.unknown[i]
		if unknown && p.mem.unknown == nil {
			p.mem.unknown = make([]bool, len(p.mem.data))
		}
		for b := low; p.mem.unknown != nil && b < high; b++ {
			whole := bit <= 8*b && 8*b+8 <= bit+width
			if unknown || whole {
				p.mem.unknown[b] = unknown
			}
		}
		i++
	})
}

// lose makes all elements unknown.
func (p *place) lose() {
	v := p.read()
	v.unknown = slices.Repeat([]bool{true}, int(p.elements()))
	p.write(v)
}

// copyBits copies n bits, counted from the lowest of each byte.
func copyBits(dst []byte, to int64, src []byte, from, n int64) {
	for i := range n {
		b := src[(from+i)>>3] >> ((from + i) & 7) & 1
		at := &dst[(to+i)>>3]
		*at = *at&^(1<<((to+i)&7)) | b<<((to+i)&7)
	}
}

// differs compares elements with what they must be, and says where they differ. Both
// have each element in a whole number of bytes.
func (p *place) differs(want values, got []byte) string {
	if want.unknown == nil && string(got) == string(want.data) {
		return ""
	}
	if len(got) != len(want.data) {
		return fmt.Sprintf("%d bytes were read, must be %d", len(got), len(want.data))
	}
	first, wrong := int64(-1), 0
	for i := range p.elements() {
		at := i * want.item
		if (want.unknown == nil || !want.unknown[i]) && string(got[at:at+want.item]) != string(want.data[at:at+want.item]) {
			if wrong++; first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		return ""
	}
	at := first * want.item
	return fmt.Sprintf("%d of %d elements are wrong: element %d is %x, must be %x", wrong, p.elements(), first, got[at:at+want.item], want.data[at:at+want.item])
}

// slice, and the others below, are views as the model sees them.

func (p *place) slice(axis int, start, stop, step int64) place {
	q := p.clone()
	n := int64(0)
	switch {
	case step > 0 && stop > start:
		n = (stop - start + step - 1) / step
	case step < 0 && stop < start:
		n = (start - stop - step - 1) / -step
	}
	if n > 0 {
		q.bit += start * p.strides[axis] * p.width()
	}
	q.shape[axis], q.strides[axis] = n, p.strides[axis]*step
	return q
}

func (p *place) index(axis int, i int64) place {
	q := p.clone()
	q.bit += i * p.strides[axis] * p.width()
	q.shape, q.strides = slices.Delete(q.shape, axis, axis+1), slices.Delete(q.strides, axis, axis+1)
	return q
}

func (p *place) permute(axes []int) place {
	q := p.clone()
	for i, a := range axes {
		q.shape[i], q.strides[i] = p.shape[a], p.strides[a]
	}
	return q
}

func (p *place) expand(axis int) place {
	q := p.clone()
	q.shape, q.strides = slices.Insert(q.shape, axis, 1), slices.Insert(q.strides, axis, 1)
	return q
}

// broadcast puts an axis of n repeated elements in front.
func (p *place) broadcast(n int64) place {
	q := p.clone()
	q.shape, q.strides = slices.Insert(q.shape, 0, n), slices.Insert(q.strides, 0, 0)
	return q
}

func (p *place) clone() place {
	q := *p
	q.shape, q.strides = slices.Clone(p.shape), slices.Clone(p.strides)
	return q
}

func pattern(n int64, seed uint64) []byte { return parts.Pattern(n, seed) }
