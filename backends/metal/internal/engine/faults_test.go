package engine

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/backends/metal/internal/fake"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Each call of the driver fails once, at each of its places in a life with all that a device can do. Whatever comes of it
// ends, is a typed error and leaks nothing.
func TestEveryCallMayFail(t *testing.T) {
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			v, b := machine(t, c)
			failed := coretest.EachCall{Faults: v, Code: driver.ErrPageFault, Life: func(ctx context.Context) error { return life(ctx, v, b) }}.Run(t)
			for _, call := range []string{"NewBuffer", "NewBufferNoCopy", "NewCommandQueue", "NewSharedEvent", "CommandBuffer", "BlitEncoder", "Commit", "CopyDevices"} {
				found := false
				for _, f := range failed {
					found = found || f == call
				}
				if !found {
					t.Errorf("%s was not called", call)
				}
			}
		})
	}
}

// life opens two devices, does all that they can do, and closes everything.
func life(ctx context.Context, v *fake.Driver, b *Backend) error {
	l := &coretest.Life{Context: ctx}
	opened := func(index int32) core.Device {
		d, err := b.Open(ctx, core.DeviceID{Type: core.DeviceMetal, Index: index})
		if !l.OK(err) {
			return nil
		}
		l.Later(func() error { // memory whose last work has only just ended
			for {
				if err := d.Close(); !errors.Is(err, core.ErrInvalid) || ctx.Err() != nil {
					return err
				}
				time.Sleep(time.Millisecond)
			}
		})
		return d
	}
	d, peer := opened(0), opened(1)
	if d == nil || peer == nil {
		return l.End()
	}
	square := []int64{64, 512}
	host := l.Tensor(core.FromSlice(make([]float32, 64*512), square...))
	back := l.Tensor(core.FromSlice(make([]float32, 64*512), square...))
	x := l.Tensor(core.Empty(ctx, d, core.TypeFloat32, square, core.AllocOptions{}))
	y := l.Tensor(core.Empty(ctx, d, core.TypeFloat32, square, core.AllocOptions{}))
	far := l.Tensor(core.Empty(ctx, peer, core.TypeFloat32, square, core.AllocOptions{}))
	if x == nil || y == nil || far == nil || host == nil || back == nil {
		return l.End()
	}
	if l.Copy(d, nil, x, host) {
		turned, turnedHost := l.Tensor(y.Transpose()), l.Tensor(host.Transpose())
		l.Copy(d, nil, turned, turnedHost)
		l.OK(peer.(core.PeerCopier).CopyPeer(ctx, nil, far, x, d))
	}
	pixels := l.Tensor(core.Empty(ctx, d, core.TypeUint8, square, core.AllocOptions{}))
	if pixels == nil {
		return l.End()
	}
	l.OK(d.(core.Converter).ConvertOn(ctx, nil, x, pixels, core.Scaling{Scale: []float32{0.5}}))
	s, other := l.Stream(d.NewStream(ctx)), l.Stream(d.NewStream(ctx))
	if s == nil || other == nil {
		return l.End()
	}
	l.OK(d.(core.BatchCopier).CopyBatch(ctx, s, []*core.Tensor{x, y}, []*core.Tensor{host, back}))
	if sem, err := d.(core.SemaphoreCreator).NewSemaphore(ctx, 0); l.Opened(sem, err) {
		if l.OK(sem.Signal(other, 1)) {
			l.OK(sem.WaitOn(s, 1))
		}
	}
	l.OK(d.(core.Converter).ConvertOn(ctx, s, x, pixels, core.Scaling{}))
	l.Copy(d, s, y, x)
	l.Copy(d, other, back, y)
	l.OK(peer.(core.PeerCopier).CopyPeer(ctx, s, far, x, d))
	if theirs := l.Stream(d.(core.StreamImporter).ImportStream(ctx, s.Native())); theirs != nil {
		l.Copy(d, theirs, x, y)
		l.OK(theirs.Synchronize(ctx))
	}
	sharing(l, d, x)
	l.OK(s.Synchronize(ctx))
	l.OK(other.Synchronize(ctx))
	return l.End()
}

// sharing imports, maps and views memory.
func sharing(l *coretest.Life, d core.Device, x *core.Tensor) {
	b, err := x.Buffer()
	if !l.OK(err) {
		return
	}
	if m, err := d.(core.PointerImporter).ImportPointer(b.Memory().Handle, b.Memory().Size, nil); l.OK(err) {
		m.Free()
	}
	pages := l.Tensor(core.FromSlice(make([]byte, 3*os.Getpagesize())))
	pb, err := pages.Buffer()
	if !l.OK(err) {
		return
	}
	mapped := l.Wrap(d.(core.HostMapper).MapHost(l.Context, pb))
	visible := l.Tensor(core.Empty(l.Context, d, core.TypeUint8, []int64{pages.NumBytes()}, core.AllocOptions{HostVisible: true}))
	l.Copy(d, nil, visible, mapped)
	if visible == nil {
		return
	}
	vb, err := visible.Buffer()
	if !l.OK(err) {
		return
	}
	if m, err := d.(core.HostViewer).HostView(l.Context, vb); l.OK(err) {
		m.Free()
	}
}
