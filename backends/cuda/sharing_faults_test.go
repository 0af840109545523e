//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/gpusim"
)

// That no context can be made current is left out: nothing could be given back then.
func TestEveryCallOfSharingMayFail(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	everyCallMayFail(t, sim, []string{
		"cuMemGetAllocationGranularity", "cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
		"cuMemExportToShareableHandle", "cuMemImportFromShareableHandle",
		"cuMemUnmap", "cuMemRelease", "cuMemAddressFree",
		"cuImportExternalMemory", "cuExternalMemoryGetMappedBuffer", "cuDestroyExternalMemory", "cuMemFree",
		"cuImportExternalSemaphore", "cuSignalExternalSemaphoresAsync", "cuWaitExternalSemaphoresAsync", "cuDestroyExternalSemaphore",
		"cuStreamCreate", "cuStreamIsCapturing", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent",
	}, []core.Device{d}, func() error { return sharingLife(t.Context(), t, sim, d) })
}

// sharingLife exports and imports memory of all kinds and a semaphore, works on them
// and gives all back. It returns the first error, after which it does no more.
func sharingLife(ctx context.Context, t *testing.T, sim *gpusim.Simulator, d core.Device) (err error) {
	var opened []func() error
	later := func(f func() error) { opened = append(opened, f) }
	defer func() {
		for i := range opened {
			err = errors.Join(err, opened[len(opened)-1-i]())
		}
	}()
	counter, err := sim.NewTimeline()
	if err != nil {
		return err
	}
	later(func() error { return unix.Close(counter.FD) })
	x, err := core.Empty(ctx, d, core.TypeUint8, []int64{5000}, core.AllocOptions{Export: core.HandleOpaqueFD})
	if err != nil {
		return err
	}
	later(x.Close)
	m, err := d.(core.MemoryExporter).ExportMemory(buffer(t, x), core.HandleOpaqueFD)
	if err != nil {
		return err
	}
	again, err := importOrClose(ctx, d, m)
	if err != nil {
		return err
	}
	later(again.Close)
	of, host := foreign(t, d, 1<<16)
	other, err := importOrClose(ctx, d, of)
	if err != nil {
		return err
	}
	later(other.Close)
	e := core.ExternalSemaphore{Type: core.HandleOpaqueFD, FD: duplicate(t, counter.FD), DeviceUUID: d.Properties().UUID}
	sem, err := d.(core.SemaphoreImporter).ImportSemaphore(ctx, e)
	if err != nil {
		_ = unix.Close(e.FD)
		return err
	}
	later(sem.Close)
	var streams [2]core.Stream
	for i := range streams {
		if streams[i], err = d.NewStream(ctx); err != nil {
			return err
		}
		later(streams[i].Close)
	}
	src, err := core.FromSlice(pattern(5000, 1))
	if err != nil {
		return err
	}
	later(src.Close)
	part, err := other.Slice(0, 0, 5000, 1)
	if err != nil {
		return err
	}
	later(part.Close)
	for _, step := range []func() error{
		func() error { return d.Copy(ctx, streams[0], x, src) },
		func() error { return sem.Signal(streams[0], 1) },
		func() error { return sem.WaitOn(streams[1], 1) },
		func() error { return d.Copy(ctx, streams[1], part, again) },
		func() error { return sem.Signal(streams[1], 2) },
		func() error { return sem.Wait(ctx, 2) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if !bytes.Equal(host[:5000], pattern(5000, 1)) {
		return core.Errorf(core.ErrInvalid, "test", "sharingLife", "the bytes did not arrive")
	}
	return nil
}

// importOrClose opens m as a row of its bytes; the handle is gone then, either way.
func importOrClose(ctx context.Context, d core.Device, m core.ExternalMemory) (*core.Tensor, error) {
	memory, err := d.(core.MemoryImporter).ImportMemory(ctx, m)
	if err != nil {
		_ = unix.Close(m.FD)
		return nil, err
	}
	return core.Wrap(memory, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Length}})
}
