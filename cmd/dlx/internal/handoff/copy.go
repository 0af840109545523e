package handoff

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// copyTo returns a row-major copy of t on another device, or a second one on the
// same, and how many bytes were copied on the way. The copy is done when it returns.
func (r *Route) copyTo(ctx context.Context, to station, t *core.Tensor) (*core.Tensor, int64, error) {
	carrier, copyElements, err := r.carrier(to, t)
	if err != nil {
		return nil, 0, err
	}
	if copyElements == nil {
		return r.copyThroughHost(ctx, to, t)
	}
	dst, err := emptyLike(ctx, to.device, t)
	if err != nil {
		return nil, 0, err
	}
	err = copyElements(ctx, carrier.stream, dst, t)
	if err == nil {
		err = dst.WaitReady(ctx)
	}
	if err != nil {
		// Work that was enqueued may still run although ctx has ended: let it end
		// before its memory does. It has no other failure to tell of.
		_ = carrier.stream.Synchronize(context.WithoutCancel(ctx))
		_ = dst.Close()
		return nil, 0, err
	}
	return dst, t.NumBytes(), nil
}

// carrier finds the device that can copy t to a station, and its call. The call is
// nil if neither device reaches the other's memory.
func (r *Route) carrier(to station, t *core.Tensor) (station, copyFunc, error) {
	if t.ID() == to.device.ID() || t.ID().Type.HostAccessible() {
		return to, to.device.Copy, nil
	}
	from, ok := r.find(t.ID())
	if !ok {
		return station{}, nil, core.Errorf(core.ErrDevice, "handoff", "Copy", "the tensor lies on %v, which is not on the route", t.ID())
	}
	if to.device.ID().Type.HostAccessible() {
		return from, from.device.Copy, nil
	}
	if p, ok := to.device.(core.PeerCopier); ok && p.CanPeer(from.device) == nil {
		return to, func(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
			return p.CopyPeer(ctx, s, dst, src, from.device)
		}, nil
	}
	return station{}, nil, nil
}

// copyFunc is [core.Device.Copy] or does the same.
type copyFunc func(ctx context.Context, s core.Stream, dst, src *core.Tensor) error

func (r *Route) copyThroughHost(ctx context.Context, to station, t *core.Tensor) (*core.Tensor, int64, error) {
	staged, down, err := r.copyTo(ctx, r.host, t)
	if err != nil {
		return nil, 0, err
	}
	defer staged.Close()
	dst, up, err := r.copyTo(ctx, to, staged)
	return dst, down + up, err
}

// emptyLike allocates a row-major tensor on d for a copy of t's elements.
func emptyLike(ctx context.Context, d core.Device, t *core.Tensor) (*core.Tensor, error) {
	m, err := d.Alloc(ctx, t.NumBytes(), core.AllocOptions{})
	if err != nil {
		return nil, err
	}
	dst, err := core.Wrap(m, core.Spec{
		DType: t.DType(),
		Shape: t.Shape(),
		Flags: core.FlagCopied | t.Flags()&core.FlagSubBytePadded,
	})
	if err != nil {
		m.Free()
		return nil, err
	}
	return dst, nil
}

// Fetch returns the elements of t in host memory: t's own memory where the host
// reaches it, else a copy. They are there when it returns. The caller closes the
// result. It fails like [core.Device.Copy].
func (r *Route) Fetch(ctx context.Context, t *core.Tensor) (*core.Tensor, error) {
	if t.ID().Type.HostAccessible() {
		if err := t.WaitReady(ctx); err != nil {
			return nil, err
		}
		return t.Share()
	}
	host, _, err := r.copyTo(ctx, r.host, t)
	return host, err
}
