package backendtest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// The oracle: every copy is compared with one that is made element by element in
// host memory. Whole allocations are compared, to detect a changed byte or bit
// beside the elements.

// image is the contents of an allocation in which a tensor lies, with guard
// bytes before and after it.
type image struct {
	spec   core.Spec
	layout core.Layout
	bits   int64 // from one element to the next
	bytes  []byte
}

// guard is the number of bytes before and after the elements. It keeps elements aligned.
const guard = 64

// newImage makes random contents for a tensor; nil strides mean row-major. Slack
// moves the tensor off its alignment by so many bytes.
func (e *env) newImage(t core.DType, flags core.Flags, shape, strides []int64, slack int64) *image {
	e.Helper()
	l, err := core.NewStridedLayout(shape, strides)
	e.check(err, "layout of shape %v, strides %v", shape, strides)
	m := &image{layout: l, bits: t.ElementBits()}
	padded := flags&core.FlagSubBytePadded != 0 && t.SubByte()
	if padded {
		m.bits = 8 * int64(t.Lanes)
	}
	low, high := l.Extent()
	offset := guard + slack + (-low*m.bits+7)/8
	m.spec = core.Spec{DType: t, Shape: shape, Strides: strides, Offset: offset, Flags: flags}
	m.bytes = e.pattern(offset + (high*m.bits+7)/8 + guard)
	if padded { // the unused upper bits of a padded number may or may not be copied
		for i := range m.bytes {
			m.bytes[i] &= 1<<t.Bits - 1
		}
	}
	return m
}

// onHost makes a host tensor of the image, whose bytes it shares.
func (e *env) onHost(m *image) *core.Tensor {
	e.Helper()
	return e.view(e.hostBytes(m.bytes), m.spec)
}

// onDevice makes a device tensor of the image; its bytes are copied.
func (e *env) onDevice(m *image) *core.Tensor {
	e.Helper()
	return e.view(e.upload(m.bytes), m.spec)
}

// view replaces a tensor by one with another spec on the same memory.
func (e *env) view(base *core.Tensor, s core.Spec) *core.Tensor {
	e.Helper()
	b, err := base.Buffer()
	e.check(err, "Buffer")
	t := e.keep(core.NewTensor(b, s))
	_ = base.Close()
	return t
}

// memoryOf reads the whole allocation that a device tensor lies in.
func (e *env) memoryOf(t *core.Tensor) []byte {
	e.Helper()
	b, err := t.Buffer()
	e.check(err, "Buffer")
	all := e.keep(core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{b.Memory().Size}}))
	content := e.download(all)
	_ = all.Close()
	return content
}

// copied returns the bytes that m has after its elements became those of src.
func (m *image) copied(src *image) []byte {
	out := slices.Clone(m.bytes)
	index := make([]int64, m.layout.Rank())
	for range m.layout.NumElements() {
		copyBits(out, src.bytes, m.bitOf(index), src.bitOf(index), m.bits)
		for a := len(index) - 1; a >= 0; a-- {
			if index[a]++; index[a] < m.layout.Dim(a) {
				break
			}
			index[a] = 0
		}
	}
	return out
}

// bitOf is where an element begins, in bits from the start of the allocation.
func (m *image) bitOf(index []int64) int64 {
	at := int64(0)
	for a, i := range index {
		at += i * m.layout.Stride(a)
	}
	return 8*m.spec.Offset + at*m.bits
}

// copyBits moves n bits; bit 0 of a byte is its lowest.
func copyBits(dst, src []byte, d, s, n int64) {
	if (d|s|n)&7 == 0 {
		copy(dst[d/8:(d+n)/8], src[s/8:])
		return
	}
	for i := range n {
		bit := src[(s+i)/8] >> ((s + i) % 8) & 1
		dst[(d+i)/8] = dst[(d+i)/8]&^(1<<((d+i)%8)) | bit<<((d+i)%8)
	}
}

// difference describes where two unequal byte strings differ.
func difference(got, want []byte) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d bytes, want %d", len(got), len(want))
	}
	first, count := -1, 0
	for i := range got {
		if got[i] != want[i] {
			if first < 0 {
				first = i
			}
			count++
		}
	}
	return fmt.Sprintf("%d of %d bytes differ, the first is byte %d: %#02x, want %#02x", count, len(got), first, got[first], want[first])
}

// wantCopied copies src to dst from host to device, within the device and from
// device to host, and compares all memory of dst with the oracle.
func (e *env) wantCopied(dst, src *image) {
	e.Helper()
	want := dst.copied(src)
	compare := func(way string, got []byte) {
		e.Helper()
		if !bytes.Equal(got, want) {
			e.Errorf("%s, %v%v strides %v <- strides %v (elements from byte %d, guards around): %s", way, dst.spec.DType, dst.spec.Shape,
				dst.layout.Strides(), src.layout.Strides(), dst.spec.Offset, difference(got, want))
		}
	}
	hostSrc, devSrc := e.onHost(src), e.onDevice(src)
	for _, way := range []struct {
		name string
		src  *core.Tensor
	}{{"host to device", hostSrc}, {"within the device", devSrc}} {
		t := e.onDevice(dst)
		e.copy(nil, t, way.src)
		compare(way.name, e.memoryOf(t))
		_ = t.Close()
	}
	host := *dst
	host.bytes = slices.Clone(dst.bytes)
	t := e.onHost(&host)
	e.copy(nil, t, devSrc)
	compare("device to host", host.bytes)
	for _, t := range []*core.Tensor{t, hostSrc, devSrc} {
		_ = t.Close()
	}
}
