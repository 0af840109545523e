package core

import "github.com/dlx-go/dlx/internal/memfault"

// guard calls f, which reads and writes elements of tensors on the host. If memory of them is
// not there any more, as that of a mapped file is not after somebody has truncated the file,
// guard returns ErrInvalid, and what f was doing stays half done. Otherwise it returns f's
// error.
func guard(call string, f func() error, a, b *Tensor) (err error) {
	gone := memfault.Guard(func(address uintptr) bool { return a.holds(address) || b.holds(address) }, func() { err = f() })
	if gone != nil {
		return Errorf(memfault.Wrap(ErrInvalid, gone), "core", call, "%v", gone)
	}
	return err
}

// holds reports whether an element of t, which is host-accessible and open, includes the byte
// at an address.
func (t *Tensor) holds(address uintptr) bool {
	b, err := t.buffer("")
	if err != nil {
		return false
	}
	low, high := t.layout.Extent()
	bits := t.dtype.storageBits(t.Padded())
	first, end := low*bits>>3, (high*bits+7)>>3
	return memfault.Between(b.mem.Handle+uintptr(t.offset+first), uintptr(end-first))(address)
}
