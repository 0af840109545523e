//go:build opencl && linux && cgo

package opencl

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// semaphore is a counter of the host that streams wait for by user events.
type semaphore struct {
	*stream.Timeline
	device *device
}

var _ core.Semaphore = semaphore{}

// NewSemaphore returns a counter of this process, for the streams of this device:
// it fails with ErrNotSupported if t is not 0, since cl_khr_semaphore has only
// binary semaphores. A stream whose semaphore is closed before the value is
// reached goes on, and its next event carries that. As long as a stream waits, the specification lets
// nobody release OpenCL objects that the waiting work uses (OpenCL 3.0 API,
// clSetUserEventStatus); a device keeps to that for its own memory.
func (d *device) NewSemaphore(ctx context.Context, t core.HandleType) (core.Semaphore, error) {
	if err := d.Enter(ctx, "NewSemaphore"); err != nil {
		return nil, err
	}
	if t != 0 {
		return nil, errorf(core.ErrNotSupported, "NewSemaphore", "a semaphore of OpenCL cannot be exported as %v", t)
	}
	return semaphore{stream.NewTimeline(), d}, nil
}

// Signal sets the value when all is done that was enqueued on s before, whether
// that went well or not.
func (m semaphore) Signal(s core.Stream, value uint64) error {
	q, err := shell.StreamOf[*queue](&m.device.Device, "Signal", s)
	if err != nil {
		return err
	}
	return m.Timeline.Signal(signaller{q}, value)
}

// WaitOn holds s back by a user event.
func (m semaphore) WaitOn(s core.Stream, value uint64) error {
	if _, err := m.Value(); err != nil {
		return err
	}
	q, err := shell.StreamOf[*queue](&m.device.Device, "WaitOn", s)
	if err != nil {
		return err
	}
	reached := m.At(value)
	if done, err := reached.Done(); done { // asked without q's lock, which Signal takes inside of the timeline's
		return err
	}
	if err := q.lock("WaitOn"); err != nil {
		return err
	}
	defer q.mu.Unlock()
	return q.holdUntil(reached)
}

// signaller is a stream that does work of the host for a timeline.
type signaller struct{ *queue }

// Enqueue does work when all is done that was enqueued before, however that ended.
// The error of work is dropped: it says that another stream has set a larger value.
func (s signaller) Enqueue(work func() error) error {
	if err := s.lock("Signal"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	return s.hostWork(func(error) error {
		_ = work()
		return nil
	})
}
