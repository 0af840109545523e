package core

import (
	"context"

	"github.com/dlx-go/dlx/internal/memfault"
)

// wideStep is the distance in bytes from which on the parts of a tensor are looked at one by one, so that no pages are
// read that lie between them.
const wideStep = 1 << 16

// Present returns ErrInvalid if src, which d is about to read, is host memory that is not there any more, as that of a
// mapped file is not after somebody has truncated the file. A driver that reads such memory would end the process. The
// CPU's copies are guarded. Mapped files are read-only, so other memory is not looked at.
func (privateCore) Present(d Device, src *Tensor) error { return src.present(d) }

// present is Present.
func (t *Tensor) present(d Device) error {
	if d.ID().Type == DeviceCPU || !t.ReadOnly() || !t.id.Type.HostAccessible() || t.NumElements() == 0 {
		return nil
	}
	b, err := t.Buffer()
	if err != nil {
		return err
	}
	if err := presentFrom(b.mem.Handle+uintptr(t.offset), t.layout, t.dtype.storageBits(t.Padded()), 0); err != nil {
		return Errorf(memfault.Wrap(ErrInvalid, err), "core", "Copy", "%v", err)
	}
	return nil
}

// presentFrom looks at the elements of a layout, of width bits each, whose first one lies bit bits after address.
func presentFrom(address uintptr, l Layout, width, bit int64) error {
	if l.Rank() > 0 {
		if step := l.Stride(0) * width; step >= 8*wideStep || step <= -8*wideStep {
			rest, _, err := l.Index(0, 0)
			for i := int64(0); err == nil && i < l.Dim(0); i++ {
				err = presentFrom(address, rest, width, bit+i*step)
			}
			return err
		}
	}
	low, high := l.Extent()
	first, end := (bit+low*width)>>3, (bit+high*width+7)>>3
	return memfault.Present(address+uintptr(first), uintptr(end-first))
}

// CopyAll has d copy each tensor of src to that of dst, in one submission if it can. If CopyAll fails, some copies may
// have been enqueued.
func (privateCore) CopyAll(ctx context.Context, d Device, s Stream, dst, src []*Tensor) error {
	return copyAll(ctx, d, s, dst, src)
}

// copyAll is CopyAll.
func copyAll(ctx context.Context, d Device, s Stream, dst, src []*Tensor) error {
	for _, t := range src {
		if err := t.present(d); err != nil {
			return err
		}
	}
	if c, ok := As[BatchCopier](d); ok && len(dst) > 1 {
		return c.CopyBatch(ctx, s, dst, src)
	}
	for i := range dst {
		if err := d.Copy(ctx, s, dst[i], src[i]); err != nil {
			return err
		}
	}
	return nil
}
