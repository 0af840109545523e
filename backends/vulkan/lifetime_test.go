//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// TestEventsMayBeAskedWhileTheirDeviceCloses: whoever holds an event knows nothing of
// streams and devices, and must not reach the driver through one that is gone.
func TestEventsMayBeAskedWhileTheirDeviceCloses(t *testing.T) {
	ctx := context.Background()
	for range 20 {
		d := open(t)
		s, err := d.NewStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		x, y := row(t, d, 200_000, core.AllocOptions{}), row(t, d, 200_000, core.AllocOptions{})
		if err := d.Copy(ctx, s, x, y); err != nil {
			t.Fatal(err)
		}
		e, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		var askers sync.WaitGroup
		for i := range 8 {
			askers.Go(func() {
				if i%2 == 0 {
					if err := e.Wait(ctx); err != nil {
						t.Error(err)
					}
					return
				}
				for done, _ := e.Done(); !done; done, _ = e.Done() {
					runtime.Gosched()
				}
			})
		}
		x.Close()
		y.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		askers.Wait()
	}
}

// TestASemaphoreNeverRunsBackwards: a value that was held back does not follow a larger one.
func TestASemaphoreNeverRunsBackwards(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	d := opened(t)
	var closers []interface{ Close() error }
	semaphore := func() core.Semaphore {
		m, err := d.(core.SemaphoreCreator).NewSemaphore(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		closers = append(closers, m)
		return m
	}
	newStream := func() core.Stream {
		s, err := d.NewStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		closers = append([]interface{ Close() error }{s}, closers...)
		return s
	}
	gate, counter := semaphore(), semaphore()
	held, free := newStream(), newStream()
	for _, err := range []error{gate.WaitOn(held, 1), counter.Signal(held, 1), counter.Signal(free, 2), free.Synchronize(ctx), gate.Signal(free, 1)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, held.Synchronize(ctx), core.ErrInvalid, "the smaller value behind the larger one")
	if v, err := counter.Value(); v != 2 || err != nil {
		t.Errorf("the value is %d, %v; want 2", v, err)
	}
	for _, c := range closers {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestManyAskForOneEvent: two at once must not lead the validation layer to lose what it keeps of a timeline, which
// the address sanitizer sees (Counter of package driver).
func TestManyAskForOneEvent(t *testing.T) {
	ctx := context.Background()
	d := opened(t, separateMemory)
	s, err := d.NewStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	a, b := row(t, d, 64, core.AllocOptions{}), row(t, d, 64, core.AllocOptions{})
	var latest atomic.Pointer[core.Event]
	var asked sync.WaitGroup
	defer asked.Wait()
	stop := make(chan struct{})
	defer close(stop)
	for range 3 {
		asked.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if e := latest.Load(); e != nil {
					if _, err := (*e).Done(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 2000 {
		err := d.Copy(ctx, s, a, b)
		if err != nil {
			t.Fatal(err)
		}
		e, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		latest.Store(&e)
		if err := e.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMemoryOfUnknownSizeStaysWithinItsBuffer: tensors of DLPack come without a size.
func TestMemoryOfUnknownSizeStaysWithinItsBuffer(t *testing.T) {
	d := opened(t)
	x := row(t, d, 64, core.AllocOptions{Export: core.HandleOpaqueFD})
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	m := b.Memory()
	for _, offset := range []int64{64, 1 << 20, 1 << 34} {
		far := keep(t)(core.Wrap(core.Memory{ID: m.ID, Handle: m.Handle, Size: core.UnknownSize}, core.Spec{DType: core.TypeUint8, Shape: []int64{1}, Offset: offset}))
		back := keep(t)(core.FromSlice([]byte{0}))
		wantError(t, d.Copy(context.Background(), nil, back, far), core.ErrInvalid, "a byte behind the VkBuffer")
	}
}

// TestADescriptorThatBlocksIsNotRead: Mesa's driver for the CPU reads what it imports.
func TestADescriptorThatBlocksIsNotRead(t *testing.T) {
	d := opened(t)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	p := d.Properties()
	for _, fd := range pipe {
		h, err := backendkit.NewHandle(core.HandleOpaqueFD, uintptr(fd))
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.(core.MemoryImporter).ImportMemory(context.Background(), core.ExternalMemory{
			Handle: h, Size: 4096, Length: 4096, DeviceUUID: p.UUID, DriverUUID: p.DriverUUID})
		wantError(t, err, core.ErrInvalid, "a pipe")
		if number, err := h.Number(); int(number) != fd || h.Close() != nil {
			t.Errorf("the descriptor did not stay the caller's: %v", err)
		}
	}
}
