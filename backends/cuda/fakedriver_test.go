//go:build cuda && linux && cgo

package cuda

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
	"github.com/dlx-go/dlx/stream"
)

// This file is a fake of another driver that shares memory and semaphores with CUDA: Vulkan on the CPU. The host can
// use its memory, and the simulator understands its opaque descriptors.

// otherStream is a stream of the other driver. It cannot wait for events of CUDA.
type otherStream struct{ *stream.Queue }

func newOtherStream(t testing.TB) otherStream {
	s := otherStream{stream.NewQueue(nil)}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Wait waits for events of its own driver.
func (s otherStream) Wait(e core.Event) error {
	if _, own := e.(*stream.Event); !own {
		return core.Errorf(core.ErrNotSupported, "test", "Wait", "an event of another driver")
	}
	return s.Queue.Wait(e)
}

// timeline is a semaphore of the other driver.
type timeline struct{ *gpusim.Timeline }

var _ core.Semaphore = timeline{}

// newTimeline makes a semaphore of the other driver, and imports it into d.
func newTimeline(t testing.TB, d core.Device) (timeline, core.Semaphore) {
	t.Helper()
	own, err := simulator(t).NewTimeline()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(own.FD) })
	x := core.ExternalSemaphore{Handle: coretest.HandleOf(t, core.HandleOpaqueFD, own.FD), DeviceUUID: d.Properties().UUID, DriverUUID: core.UUID{0x1a, 0x7a}}
	imported, err := d.(core.SemaphoreImporter).ImportSemaphore(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = imported.Close() })
	return timeline{own}, imported
}

func (s timeline) Signal(on core.Stream, value uint64) error {
	return on.(otherStream).Enqueue(func() error { return s.Timeline.Signal(value) })
}

func (s timeline) WaitOn(on core.Stream, value uint64) error {
	return on.(otherStream).Enqueue(func() error { return s.Wait(context.Background(), value) })
}

func (s timeline) Wait(ctx context.Context, value uint64) error {
	for {
		err := s.Timeline.Wait(value, time.Millisecond)
		if err == nil || ctx.Err() != nil {
			return cmp.Or(ctx.Err(), err)
		}
	}
}

func (s timeline) Close() error { return nil }

// isOpen reports whether a descriptor is open.
func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return !errors.Is(err, unix.EBADF)
}
