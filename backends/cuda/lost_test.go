//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
)

// When device 1 is lost, its primary context fails, and nothing else in the process does.
func TestALostDeviceStaysLostAndNoCallWaits(t *testing.T) {
	sim := simulator(t)
	live := sim.Live()
	d := open(t, 1)
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sim.Hold(true)
	a, b := row(t, d, 1<<20, core.AllocOptions{}), row(t, d, 1<<20, core.AllocOptions{})
	host := keep(t)(core.FromSlice(make([]byte, 1<<20)))
	if err := d.Copy(t.Context(), s, a, host); err != nil { // by a host function, which never runs
		t.Fatal(err)
	}
	if err := d.Copy(t.Context(), s, b, a); err != nil {
		t.Fatal(err)
	}
	clock := d.(core.DeviceClock)
	mark, err := clock.Mark(s)
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 3)
	go func() { waits <- s.Synchronize(context.Background()) }()
	go func() { waits <- mark.Event().Wait(context.Background()) }()
	go func() { waits <- b.WaitReady(context.Background()) }()
	time.Sleep(10 * time.Millisecond)
	sim.Lose(1)
	for range cap(waits) {
		select {
		case err := <-waits:
			wantError(t, err, core.ErrDeviceLost, "a wait when the device gets lost")
		case <-time.After(10 * time.Second):
			t.Fatal("a wait did not end when the device got lost")
		}
	}
	sim.Hold(false)
	wantError(t, d.Copy(t.Context(), s, a, b), core.ErrDeviceLost, "Copy")
	wantError(t, d.Copy(t.Context(), nil, a, host), core.ErrDeviceLost, "Copy without a stream")
	_, err = s.Record()
	wantError(t, err, core.ErrDeviceLost, "Record")
	_, err = clock.Mark(s)
	wantError(t, err, core.ErrDeviceLost, "Mark")
	_, err = mark.Since(mark)
	wantError(t, err, core.ErrDeviceLost, "Since")
	if err := mark.Close(); err != nil {
		t.Errorf("Close of a mark: %v", err)
	}
	_, err = d.NewStream(t.Context())
	wantError(t, err, core.ErrDeviceLost, "NewStream")
	_, err = d.Alloc(t.Context(), 100, core.AllocOptions{})
	wantError(t, err, core.ErrDeviceLost, "Alloc")
	wantError(t, s.Close(), core.ErrDeviceLost, "Close of a stream with work")
	_, _, _ = a.Close(), b.Close(), host.Close()
	if err := d.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	wantLive(t, sim, live)
	// The last reference to the primary context was released, so the next one makes a new context.
	again := opened(t, 1)
	x := row(t, again, 100, core.AllocOptions{})
	put(t, again, x, pattern(100, 1))
}

// A host function that is running when its device is lost goes on. The memory that it uses, host memory and pinned
// memory of the pool, must not be freed before it returns.
func TestMemoryIsKeptWhileTheHostWorksForALostDevice(t *testing.T) {
	sim := simulator(t)
	d := open(t, 1)
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	began, goOn := make(chan struct{}), make(chan struct{})
	if err := failed(libraryOf(t, d).context.LaunchHostFunc(s.Native(), func() { close(began); <-goOn })); err != nil { // as a copy does
		t.Fatal(err)
	}
	<-began
	over := make(chan string, 3)
	bytes := keep(t)(core.FromSlice(pattern(5000, 1)))
	address, err := bytes.Address()
	if err != nil {
		t.Fatal(err)
	}
	host := keep(t)(core.Wrap(core.Memory{
		ID: core.CPU, Handle: address, Size: 5000, Owner: core.FreeFunc(func() { over <- "the memory of the host" }),
	}, core.Spec{DType: core.TypeUint8, Shape: []int64{5000}}))
	x := row(t, d, 5000, core.AllocOptions{})
	if err := d.Copy(t.Context(), s, x, host); err != nil {
		t.Fatal(err)
	}
	sim.Lose(1)
	_ = host.Close()
	go func() { _ = x.WaitReady(context.Background()); over <- "a wait for the tensor" }()
	go func() { _ = s.Close(); over <- "Close of the stream" }()
	select {
	case what := <-over:
		t.Errorf("%s did not wait for the host function", what)
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	for range cap(over) {
		select {
		case <-over:
		case <-time.After(10 * time.Second):
			t.Fatal("something waits forever")
		}
	}
	_ = x.Close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestALostDeviceLeavesOthersAlone(t *testing.T) {
	sim := simulator(t)
	d, other := opened(t), opened(t, 1)
	sim.Lose(1)
	_, err := other.Alloc(t.Context(), 100, core.AllocOptions{})
	wantError(t, err, core.ErrDeviceLost, "Alloc on the device that is lost")
	x := row(t, d, 100, core.AllocOptions{})
	put(t, d, x, pattern(100, 1))
}

// An error while memory is freed is returned to no caller. It must still mark the device as lost.
func TestFreeingIPCMemoryMarksALostDevice(t *testing.T) {
	for name, export := range map[string]bool{"memory": false, "exported memory": true} {
		t.Run(name, func(t *testing.T) {
			sim := simulator(t)
			d := opened(t)
			x := row(t, d, 100, core.AllocOptions{Export: core.HandleIPC})
			if export {
				exportIPC(t, d, x)
				if err := endExport(d, x); err != nil {
					t.Fatal(err)
				}
			}
			sim.Lose(0)
			_ = x.Close()
			calls := sim.Calls()
			_, err := d.Alloc(t.Context(), 100, core.AllocOptions{})
			wantError(t, err, core.ErrDeviceLost, "Alloc on the device that is lost")
			if !maps.Equal(sim.Calls(), calls) {
				t.Error("the driver was called: freeing the memory did not mark the device as lost")
			}
		})
	}
}

// A stream waits for work of another device, and that device is lost. The stream goes on, and may read bytes that were
// never written. The events of that work report the error, and no other events do.
func TestTheLossOfADeviceIsReportedWhereItsWorkWasRead(t *testing.T) {
	const size = 2*staging.PieceBytes + 1000 // several pieces, so that the host copies too
	for _, c := range []struct {
		rule  string
		write bool // the lost device writes to here; else it reads here
		work  func(t *testing.T, d core.Device, s core.Stream, here *core.Tensor) (*core.Tensor, error)
		want  error
	}{
		{"what it wrote is copied", true, func(t *testing.T, d core.Device, s core.Stream, here *core.Tensor) (*core.Tensor, error) {
			dst := row(t, d, size, core.AllocOptions{})
			return dst, d.Copy(t.Context(), s, dst, here)
		}, core.ErrDeviceLost},
		{"what it wrote is copied to the host", true, func(t *testing.T, d core.Device, s core.Stream, here *core.Tensor) (*core.Tensor, error) {
			dst := keep(t)(core.FromSlice(make([]byte, size)))
			return dst, d.Copy(t.Context(), s, dst, here)
		}, core.ErrDeviceLost},
		{"what it read is overwritten", false, func(t *testing.T, d core.Device, s core.Stream, here *core.Tensor) (*core.Tensor, error) {
			return here, d.Copy(t.Context(), s, here, row(t, d, size, core.AllocOptions{}))
		}, nil},
		{"what it wrote is overwritten", true, func(t *testing.T, d core.Device, s core.Stream, here *core.Tensor) (*core.Tensor, error) {
			return here, d.Copy(t.Context(), s, here, row(t, d, size, core.AllocOptions{}))
		}, nil},
		{"what it read is freed, and used again", false, func(t *testing.T, d core.Device, s core.Stream, here *core.Tensor) (*core.Tensor, error) {
			was := addressOf(t, here)
			_ = here.Close()
			dst := row(t, d, size, core.AllocOptions{Stream: s})
			if addressOf(t, dst) != was {
				t.Error("the pool had other memory")
			}
			return dst, d.Copy(t.Context(), s, dst, row(t, d, size, core.AllocOptions{}))
		}, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			sim := simulator(t)
			d, lost := opened(t), open(t, 1)
			here, there := row(t, d, size, core.AllocOptions{}), row(t, lost, size, core.AllocOptions{})
			far, err := lost.NewStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			near := newStream(t, d)
			sim.Hold(true)
			if c.write {
				err = d.(core.PeerCopier).CopyPeer(t.Context(), far, here, there, lost)
			} else {
				err = lost.(core.PeerCopier).CopyPeer(t.Context(), far, there, here, d)
			}
			if err != nil {
				t.Fatal(err)
			}
			result, err := c.work(t, d, near, here)
			if err != nil {
				t.Fatal(err)
			}
			sim.Lose(1)
			sim.Hold(false)
			if err := result.WaitReady(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			// Later work does not report the error again.
			if err := d.Copy(t.Context(), near, result, row(t, d, size, core.AllocOptions{})); err != nil {
				t.Errorf("later work: %v", err)
			}
			if err := result.WaitReady(t.Context()); err != nil {
				t.Errorf("later work: %v", err)
			}
			_, _ = there.Close(), far.Close()
			if err := lost.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A signal reports no errors of earlier work: the stream of that work does.
func TestASignalAfterALostDeviceBlocksNoStream(t *testing.T) {
	sim := simulator(t)
	d, lost := opened(t), open(t, 1)
	there := row(t, lost, 1000, core.AllocOptions{})
	far, err := lost.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, second := newStream(t, d), newStream(t, d)
	_, timeline := newTimeline(t, d)
	sim.Hold(true)
	if err := lost.Copy(t.Context(), far, there, keep(t)(core.FromSlice(pattern(1000, 1)))); err != nil {
		t.Fatal(err)
	}
	written, err := far.Record()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(written); err != nil {
		t.Fatal(err)
	}
	if err := timeline.Signal(first, 1); err != nil {
		t.Fatal(err)
	}
	sim.Lose(1)
	sim.Hold(false)
	wantError(t, first.Synchronize(t.Context()), core.ErrDeviceLost, "Synchronize of the stream that waited")
	for value := uint64(2); value < 4; value++ {
		if err := timeline.Signal(second, value); err != nil {
			t.Errorf("Signal of another stream: %v", err)
		}
	}
	if err := second.Synchronize(t.Context()); err != nil {
		t.Errorf("Synchronize of another stream: %v", err)
	}
	_, _ = there.Close(), far.Close()
	if err := lost.Close(); err != nil {
		t.Error(err)
	}
}

// giveUp makes queries of an event fail until the device counts as lost. The driver still works.
func giveUp(t *testing.T, e core.Event) {
	t.Helper()
	sim := simulator(t)
	for range cudalike.MaxQueryFailures {
		sim.Fail("cuEventQuery", 1, int(driver.Unknown))
		_, _ = e.Done()
	}
	_, err := e.Done()
	wantError(t, err, core.ErrDeviceLost, "an event whose queries fail")
}

// held enqueues a copy to host memory, which the simulator holds, and returns that memory.
func held(t *testing.T, d core.Device, s core.Stream) (host *core.Tensor, bytes []byte) {
	t.Helper()
	x := row(t, d, 5000, core.AllocOptions{})
	put(t, d, x, pattern(5000, 1))
	bytes = make([]byte, 5000)
	host = keep(t)(core.FromSlice(bytes))
	simulator(t).Hold(true)
	if err := d.Copy(t.Context(), s, host, x); err != nil {
		t.Fatal(err)
	}
	return host, bytes
}

func TestWorkOfTheHostOnADeviceGivenUpDoesNotBegin(t *testing.T) {
	d := opened(t)
	s := newStream(t, d)
	host, p := held(t, d, s)
	giveUp(t, host.Ready()) // its memory may be freed from now on
	simulator(t).Hold(false)
	if err := failed(libraryOf(t, d).context.Synchronize(s.Native())); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(p, make([]byte, 5000)) {
		t.Error("host memory was written after it could have been freed")
	}
}

func TestADeviceGivenUpLeavesAnotherOpenedDeviceOfItsContextAlone(t *testing.T) {
	sim := simulator(t)
	d, other := open(t), opened(t)
	host, p := held(t, other, newStream(t, other))
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	giveUp(t, e)
	_ = s.Close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	sim.Hold(false)
	if err := host.WaitReady(t.Context()); err != nil || !bytes.Equal(p, pattern(5000, 1)) {
		t.Errorf("error %v, or wrong bytes", err)
	}
}
