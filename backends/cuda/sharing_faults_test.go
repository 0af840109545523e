//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

// sharingLife exports and imports memory of all types and a semaphore, uses them and closes everything.
func sharingLife(ctx context.Context, t *testing.T, sim *gpusim.Simulator) error {
	l := &coretest.Life{Context: ctx}
	if d := l.Device(New().Open(ctx, core.DeviceID{Type: core.DeviceCUDA})); d != nil {
		shareAndWork(l, t, sim, d)
	}
	return l.End()
}

func shareAndWork(l *coretest.Life, t *testing.T, sim *gpusim.Simulator, d core.Device) {
	x := l.Tensor(core.Empty(l.Context, d, core.TypeUint8, []int64{5000}, core.AllocOptions{Export: core.HandleOpaqueFD}))
	if x == nil {
		return
	}
	m, err := d.(core.MemoryExporter).ExportMemory(buffer(t, x), core.HandleOpaqueFD)
	if !l.OK(err) {
		return
	}
	forDevices := l.Tensor(core.Empty(l.Context, d, core.TypeUint8, []int64{100}, core.AllocOptions{Export: core.HandleDMABuf}))
	if forDevices == nil {
		_ = m.Close()
		return
	}
	dmaBuf, err := d.(core.MemoryExporter).ExportMemory(buffer(t, forDevices), core.HandleDMABuf)
	_ = dmaBuf.Close()
	if !l.OK(err) {
		_ = m.Close()
		return
	}
	again := l.Tensor(importOrClose(l.Context, d, m))
	of, host := foreign(t, d, 1<<16)
	other := l.Tensor(importOrClose(l.Context, d, of))
	src, a, b := l.Tensor(core.FromSlice(pattern(5000, 1))), l.Stream(d.NewStream(l.Context)), l.Stream(d.NewStream(l.Context))
	if again == nil || other == nil || a == nil || b == nil {
		return
	}
	part := l.Tensor(other.Slice(0, 0, 5000, 1))
	counter, err := sim.NewTimeline()
	if !l.OK(err) {
		return
	}
	l.Later(func() error { return unix.Close(counter.FD) })
	e := core.ExternalSemaphore{Handle: coretest.HandleOf(t, core.HandleOpaqueFD, counter.FD), DeviceUUID: d.Properties().UUID}
	defer e.Close()
	sem, err := d.(core.SemaphoreImporter).ImportSemaphore(l.Context, e)
	if !l.Opened(sem, err) {
		return
	}
	if l.Copy(d, a, x, src) && l.OK(sem.Signal(a, 1)) && l.OK(sem.WaitOn(b, 1)) && l.Copy(d, b, part, again) &&
		l.OK(sem.Signal(b, 2)) && l.OK(sem.Wait(l.Context, 2)) && !bytes.Equal(host[:5000], pattern(5000, 1)) {
		l.OK(errors.New("no call failed, but the bytes did not arrive"))
	}
}

// importOrClose imports m as a row of its bytes. If that fails, it closes the handle.
func importOrClose(ctx context.Context, d core.Device, m core.ExternalMemory) (*core.Tensor, error) {
	defer m.Close()
	memory, err := d.(core.MemoryImporter).ImportMemory(ctx, m)
	if err != nil {
		return nil, err
	}
	return core.Wrap(memory, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Length}})
}
