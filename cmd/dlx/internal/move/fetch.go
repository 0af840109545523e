package move

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// Fetch returns a tensor with the elements of t in host memory. If t is host-accessible, the
// result shares its memory; otherwise its device copies the elements to the host, even if the
// host could map the memory. Fetch waits for the copy. The caller closes the result. Fetch
// fails as [core.Device.Copy] does, and with core.ErrInvalid if r is nil.
func (r *Route) Fetch(ctx context.Context, t *core.Tensor) (*core.Tensor, error) {
	if err := r.exists("Fetch"); err != nil {
		return nil, err
	}
	if t.DeviceID().Type.HostAccessible() {
		if err := t.WaitReady(ctx); err != nil {
			return nil, err
		}
		return t.Share()
	}
	from, ok := r.find(t.DeviceID())
	if !ok {
		return nil, core.Errorf(core.ErrDevice, "move", "Fetch", "the tensor lies on %v, which is not on the route", t.DeviceID())
	}
	host, err := emptyLike(ctx, r.host.device, t)
	if err != nil {
		return nil, err
	}
	err = from.device.Copy(ctx, from.stream, host, t)
	if err == nil {
		err = host.WaitReady(ctx)
	}
	if err != nil {
		_ = from.stream.Synchronize(context.WithoutCancel(ctx)) // as in hop
		_ = host.Close()
		return nil, err
	}
	return host, nil
}

// emptyLike allocates a row-major tensor on d with the type and shape of t.
func emptyLike(ctx context.Context, d core.Device, t *core.Tensor) (*core.Tensor, error) {
	m, err := core.Alloc(ctx, d, t.NumBytes(), core.AllocOptions{})
	if err != nil {
		return nil, err
	}
	dst, err := core.Wrap(m, core.Spec{DType: t.DType(), Shape: t.Shape(), Flags: t.Flags() & core.FlagSubBytePadded})
	if err != nil {
		m.Free()
		return nil, err
	}
	return dst, nil
}
