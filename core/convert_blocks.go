package core

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dlx-go/dlx/core/internal/affine"
	"github.com/dlx-go/dlx/core/typecode"
)

// Elements of whole bytes are converted in blocks. A block is a part of a row, together with the
// same parts of the rows that interleave with it: of pixels side by side, a block has all
// channels. So each byte comes into the first-level cache once, in whatever order the axes are.

// blockElements is about how many elements a block has.
const blockElements = 4 << 10

// threadElements is the least number of elements that are worth a goroutine.
const threadElements = 128 << 10

// laneElements bounds the product of the axes of a block beside its row.
const laneElements = 64

// blockAxis is an axis of two tensors: n elements, which lie dst and src bytes apart.
type blockAxis struct {
	n, dst, src int64
	channel     bool // the axis of the scaling
}

// blockRow converts n elements that lie to and from bytes apart. channel is the index of the first on the
// axis of the scaling.
type blockRow func(dst, src unsafe.Pointer, n, to, from, channel int64)

// blocks is a conversion in blocks.
type blocks struct {
	outer, lanes []blockAxis
	row          blockAxis
	part         int64 // elements of a row in a block
	parts        int64 // of a row
	units        int64 // blocks of the tensor
	convert      blockRow
}

// planBlocks returns the conversion of elements of whole bytes.
func planBlocks(dst, src *Tensor, s *Scaling, row blockRow) *blocks {
	to, from := dst.dtype.storageBits(dst.Padded())/8, src.dtype.storageBits(src.Padded())/8
	var axes []blockAxis
	for i, n := range dst.layout.shape() {
		if n != 1 {
			axes = append(axes, blockAxis{n, dst.layout.Stride(i) * to, src.layout.Stride(i) * from, !s.uniform() && i == s.Axis})
		}
	}
	// Outermost first, in the order of the destination. An axis that continues the one after it is merged.
	slices.SortStableFunc(axes, func(a, b blockAxis) int { return cmp.Compare(max(b.dst, -b.dst), max(a.dst, -a.dst)) })
	merged := axes[:0]
	for _, a := range axes {
		if i := len(merged) - 1; i >= 0 && !a.channel && !merged[i].channel && merged[i].dst == a.dst*a.n && merged[i].src == a.src*a.n {
			a.n *= merged[i].n
			merged[i] = a
			continue
		}
		merged = append(merged, a)
	}
	b := &blocks{row: blockAxis{n: 1, dst: to, src: from}, convert: row}
	if i := rowOf(merged); i >= 0 {
		b.row = merged[i]
		merged = slices.Delete(merged, i, i+1)
	}
	lanes := int64(1)
	for _, a := range merged {
		beside := max(a.src, -a.src) < max(b.row.src, -b.row.src) || max(a.dst, -a.dst) < max(b.row.dst, -b.row.dst)
		if beside && a.n*lanes <= laneElements {
			b.lanes, lanes = append(b.lanes, a), lanes*a.n
		} else {
			b.outer = append(b.outer, a)
		}
	}
	b.part = min(b.row.n, max(64, blockElements/lanes))
	b.parts = (b.row.n-1)/b.part + 1
	b.units = b.parts
	for _, a := range b.outer {
		b.units *= a.n
	}
	return b
}

// rowOf returns the axis for rows: the densest of the destination that is not short, or else the longest.
// It returns -1 if there are no axes.
func rowOf(axes []blockAxis) int {
	longest := -1
	for i := len(axes) - 1; i >= 0; i-- {
		if axes[i].n >= 32 {
			return i
		}
		if longest < 0 || axes[i].n > axes[longest].n {
			longest = i
		}
	}
	return longest
}

// elements is how many elements there are.
func (b *blocks) elements() int64 {
	n := b.units / b.parts * b.row.n
	for _, a := range b.lanes {
		n *= a.n
	}
	return n
}

// run converts all blocks, with several goroutines if there are many. guarded calls a function that reads and
// writes elements.
func (b *blocks) run(ctx context.Context, dst, src unsafe.Pointer, guarded func(func() error) error) error {
	workers := max(1, min(int64(runtime.GOMAXPROCS(0)), b.elements()/threadElements, b.units))
	share := max(1, min((b.units-1)/workers+1, checkInterval*b.units/b.elements())) // blocks between two looks at the context
	var next atomic.Int64
	work := func() error {
		return guarded(func() error {
			for {
				first := next.Add(share) - share
				if first >= b.units {
					return nil
				}
				if err := ctx.Err(); err != nil {
					next.Store(b.units)
					return err
				}
				for u := first; u < min(first+share, b.units); u++ {
					b.unit(u, dst, src)
				}
			}
		})
	}
	errs := make([]error, workers)
	var wait sync.WaitGroup
	for i := range workers - 1 {
		wait.Go(func() { errs[i+1] = work() })
	}
	errs[0] = work()
	wait.Wait()
	return cmp.Or(errs...)
}

// unit converts one block.
func (b *blocks) unit(u int64, dst, src unsafe.Pointer) {
	start := u % b.parts * b.part
	n := min(b.part, b.row.n-start)
	var to, from, channel int64
	step := func(a *blockAxis, i int64) {
		to, from = to+i*a.dst, from+i*a.src
		if a.channel {
			channel += i
		}
	}
	step(&b.row, start)
	rest := u / b.parts
	for i := len(b.outer) - 1; i >= 0; i-- {
		a := &b.outer[i]
		step(a, rest%a.n)
		rest /= a.n
	}
	b.eachLane(b.lanes, dst, src, n, to, from, channel)
}

func (b *blocks) eachLane(lanes []blockAxis, dst, src unsafe.Pointer, n, to, from, channel int64) {
	if len(lanes) == 0 {
		b.convert(unsafe.Add(dst, to), unsafe.Add(src, from), n, b.row.dst, b.row.src, channel)
		return
	}
	a := &lanes[0]
	for i := range a.n {
		b.eachLane(lanes[1:], dst, src, n, to+i*a.dst, from+i*a.src, channel)
		if a.channel {
			channel++
		}
	}
}

// planRow makes a blockRow of a rowConverter.
func planRow(row rowConverter) blockRow {
	return func(dst, src unsafe.Pointer, n, to, from, _ int64) {
		row(dst, src, 0, 0, stepping{n, 8 * to, 8 * from})
	}
}

// scaledRow returns the function that converts rows and scales them, nil if there is no conversion. perElement
// says that rows lie along the axis of the scaling.
func scaledRow(to, from component, s *Scaling, perElement bool) blockRow {
	single := component{code: typecode.Float, bits: 32, count: 1, stride: 32}
	load, store := converterOf(single, from), converterOf(to, single)
	if load == nil || store == nil {
		return nil
	}
	var scales, offsets []float32
	if perElement {
		for i := range max(len(s.Scale), len(s.Offset)) {
			scale, offset := s.At(i)
			scales, offsets = append(scales, scale), append(offsets, offset)
		}
	}
	fromByte := from.code == typecode.UInt && from.bits == 8
	toSingle := to.code == typecode.Float && to.bits == 32
	return func(dst, src unsafe.Pointer, n, toStep, fromStep, channel int64) {
		var scale, offset float32
		if !perElement {
			scale, offset = s.At(int(channel))
		}
		if fromByte && toSingle && !perElement && (toStep == 4 || n == 1) {
			affine.FromUint8(unsafe.Slice((*float32)(dst), n), src, fromStep, scale, offset)
			return
		}
		var room [block]float32
		for done := int64(0); done < n; done += block {
			x := room[:min(n-done, block)]
			at := unsafe.Add(src, done*fromStep)
			if fromByte && !perElement {
				affine.FromUint8(x, at, fromStep, scale, offset)
			} else {
				load(unsafe.Pointer(&x[0]), at, 0, 0, stepping{int64(len(x)), 32, 8 * fromStep})
				if perElement {
					affine.ScaleEach(x, scales[channel+done:], offsets[channel+done:])
				} else {
					affine.Scale(x, scale, offset)
				}
			}
			store(unsafe.Add(dst, done*toStep), unsafe.Pointer(&x[0]), 0, 0, stepping{int64(len(x)), 8 * toStep, 32})
		}
	}
}
