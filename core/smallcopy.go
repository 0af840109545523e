package core

import "slices"

// SmallCopy prepares the most common copy at the least cost: both tensors are contiguous and have at most limit bytes
// in different memory of the host, on which there is no work, and of which this process knows no other address. It holds
// both buffers, which the caller releases, and returns the addresses of the first elements and the number of bytes. For
// every other copy, also one that fails or has no elements, it holds nothing and returns 0 bytes: CheckCopy of package
// backendkit and Do of package stream take care of these.
func (privateCore) SmallCopy(dst, src *Tensor, limit int64) (to, from *Buffer, at, of uintptr, size int64) {
	if dst == nil || src == nil || dst.dtype != src.dtype || (dst.flags^src.flags)&FlagSubBytePadded != 0 || dst.flags&FlagReadOnly != 0 {
		return nil, nil, 0, 0, 0
	}
	n := dst.layout.small(limit)
	if n <= 0 || src.layout.small(limit) != n || !slices.Equal(dst.layout.shape(), src.layout.shape()) {
		return nil, nil, 0, 0, 0
	}
	bits := n * dst.dtype.storageBits(dst.flags&FlagSubBytePadded != 0) // at most limit * 2^24
	if bits&7 != 0 || bits>>3 > limit {
		return nil, nil, 0, 0, 0
	}
	size = bits >> 3
	if to, at = dst.alone(); to == nil {
		return nil, nil, 0, 0, 0
	}
	if from, of = src.alone(); from == nil || at-of < uintptr(size) || of-at < uintptr(size) {
		to.Release()
		from.Release()
		return nil, nil, 0, 0, 0
	}
	return to, from, at, of, size
}

// small returns the number of elements of a contiguous layout, or 0 if it is another one or has more than limit.
func (l Layout) small(limit int64) int64 {
	n := int64(1)
	for i := l.Rank() - 1; i >= 0; i-- {
		extent := l.Dim(i)
		if extent == 0 || extent > limit || extent != 1 && l.Stride(i) != n {
			return 0
		}
		if n *= extent; n > limit {
			return 0
		}
	}
	return n
}

// alone holds the buffer of t and returns the address of the first element, if the buffer is memory of the host that
// is not known under another name, and there is no work on it. Otherwise it returns nil.
func (t *Tensor) alone() (*Buffer, uintptr) {
	b, err := t.Buffer()
	if err != nil || b.Retain() != nil {
		return nil, 0
	}
	m := &b.mem
	if m.ID.Type == DeviceCPU && m.Host == 0 && m.Backing == nil && b.unused() {
		return b, m.Handle + uintptr(t.offset)
	}
	b.Release()
	return nil, 0
}

// unused reports whether b has an order of its own, nothing was exported, and there is no work.
func (b *Buffer) unused() bool {
	o := b.order.Load()
	if o == nil {
		return true
	}
	if o.origin != nil || o.exported.Load() != nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy.Load() {
		o.prune()
	}
	return o.parts == nil && !o.busy.Load()
}
