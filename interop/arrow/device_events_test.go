//go:build (cuda || rocm) && linux && cgo

package arrow

import (
	"slices"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
	"github.com/dlx-go/dlx/stream"
)

// testDeviceEvents passes memory of a card through the structs with an event for its last write, which is not done yet.
// sim opens the simulator of the card's API.
func testDeviceEvents(t *testing.T, b core.Backend, api core.DeviceType, sim func() (*gpusim.Simulator, error)) {
	ctx, keep := t.Context(), coretest.Keep(t)
	coretest.NeedDriver(t, b.Probe(ctx).Reason, "the driver of a card, or name the simulated one (make gpusim) as scripts/software-drivers.sh does")
	d, err := b.Open(ctx, core.DeviceID{Type: api})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	newStream := func() core.Stream {
		s, err := d.NewStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	writer, producer, consumer := newStream(), newStream(), newStream()
	src := keep(core.FromSlice(numbers[float32](12), 3, 4))
	there := keep(core.Empty(ctx, d, core.TypeFloat32, []int64{3, 4}, core.AllocOptions{}))
	held := holdWork(t, sim)
	if err := d.Copy(ctx, writer, there, src); err != nil {
		t.Fatal(err)
	}

	s := exported(t, there, ExportOptions{Stream: producer}) // blocks for ever if it waits for the write
	if s.array.syncEvent == 0 || s.array.deviceType != int32(api) || s.array.deviceID != 0 {
		t.Fatalf("%+v", s.array)
	}
	_, err = imported(t, s, ImportOptions{Device: d})
	coretest.WantError(t, err, core.ErrNotSupported, "an event and no stream")
	s.release()

	s = exported(t, there, ExportOptions{Stream: producer})
	y, err := imported(t, s, ImportOptions{Stream: consumer})
	if err != nil {
		t.Fatal(err)
	}
	s.release()
	there.Close()
	if y.DeviceID() != d.ID() || y.Device() != d {
		t.Fatalf("the tensor is on %v", y.DeviceID())
	}
	if y.Ready() == nil {
		t.Fatal("the tensor is ready before the write is done")
	}
	held()
	got, err := core.ToSlice[float32](ctx, y) // the device waits
	if err != nil || !slices.Equal(got, numbers[float32](12)) {
		t.Fatalf("%v, %v", got, err)
	}
	y.Close()

	// An event of a card means nothing to consumers of host memory, and one of another API nothing to a stream.
	written := stream.NewEvent()
	buffer, err := src.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	buffer.Wrote(written)
	go written.Complete(nil)
	s = exported(t, src, ExportOptions{Stream: producer})
	if s.array.syncEvent != 0 || s.array.deviceType != int32(core.DeviceCPU) || src.Ready() != nil {
		t.Fatalf("%+v", s.array)
	}
	s.release()
	s = exported(t, src, ExportOptions{})
	s.array.syncEvent = 1
	_, err = imported(t, s, ImportOptions{Stream: consumer})
	if s.array.syncEvent = 0; err == nil {
		t.Fatal("a stream of a card waits for an event of the host")
	}
	s.release()

	// What is done needs no event. Without a stream the host waits.
	there = keep(core.Empty(ctx, d, core.TypeFloat32, []int64{3, 4}, core.AllocOptions{}))
	if err := d.Copy(ctx, writer, there, src); err != nil {
		t.Fatal(err)
	}
	s = exported(t, there, ExportOptions{})
	if s.array.syncEvent != 0 || there.Ready() != nil {
		t.Fatal("the write is not done")
	}
	y, err = imported(t, s, ImportOptions{Device: d})
	if err != nil {
		t.Fatal(err)
	}
	if address(t, y) != address(t, there) {
		t.Fatal("something was copied")
	}
	y.Close()
	s.release()
	if waiter, ok := consumer.(NativeWaiter); !ok {
		t.Fatal("no NativeWaiter")
	} else {
		coretest.WantError(t, waiter.WaitNative(0), core.ErrInvalid, "no event")
	}
}

// holdWork makes the simulated card do no work until release is called.
func holdWork(t *testing.T, open func() (*gpusim.Simulator, error)) (release func()) {
	sim, err := open()
	if err != nil {
		t.Skipf("only a simulated card can be held: %v", err)
	}
	sim.Hold(true)
	release = sync.OnceFunc(func() { sim.Hold(false) })
	t.Cleanup(release)
	return release
}
