package exchange

import (
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/memfault"
)

// wideStep is the distance in bytes from which on the parts of a tensor are looked at one by one, so that no pages are
// read that lie between them.
const wideStep = 1 << 16

// present returns ErrInvalid if src, which d is about to read, is host memory that is not there any more, as that of a
// mapped file is not after somebody has truncated the file. A driver that reads such memory would end the process. The
// CPU's copies are guarded. Mapped files are read-only, so other memory is not looked at.
func present(d core.Device, src *core.Tensor) error {
	if d.ID().Type == core.DeviceCPU || !src.ReadOnly() || !src.DeviceID().Type.HostAccessible() || src.NumElements() == 0 {
		return nil
	}
	b, err := src.Buffer()
	if err != nil {
		return err
	}
	size := src.NumBytes() / src.NumElements() // packed elements are copied as the bytes that they lie in
	address := b.Memory().Handle + uintptr(src.Offset())
	if err := presentFrom(address, src.Layout(), size); err != nil {
		return core.Errorf(memfault.Wrap(core.ErrInvalid, err), "exchange", "Copy", "%v", err)
	}
	return nil
}

// presentFrom looks at the elements of a layout, of size bytes each, whose first one lies at address.
func presentFrom(address uintptr, l core.Layout, size int64) error {
	if l.Rank() > 0 {
		if step := l.Stride(0) * size; step >= wideStep || step <= -wideStep {
			rest, _, err := l.Index(0, 0)
			for i := int64(0); err == nil && i < l.Dim(0); i++ {
				err = presentFrom(address+uintptr(i*step), rest, size)
			}
			return err
		}
	}
	low, high := l.Extent()
	return memfault.Present(address+uintptr(low*size), uintptr((high-low)*size))
}
