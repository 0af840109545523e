//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// semaphore is a counter on the host, which streams wait for by user events.
type semaphore struct {
	*stream.Timeline
	device *device
}

var _ core.Semaphore = semaphore{}

// NewSemaphore returns a counter of this process, for the streams of this device. It fails with
// ErrNotSupported if t is not 0, since cl_khr_semaphore has only binary semaphores. If the semaphore is
// closed before a stream's value is reached, the stream goes on, and its next event reports that. While a
// stream waits, OpenCL objects that the waiting work uses must not be released (OpenCL 3.0 API,
// clSetUserEventStatus); the device ensures that for its own memory.
func (d *device) NewSemaphore(ctx context.Context, t core.HandleType) (core.Semaphore, error) {
	if err := d.Enter(ctx, "NewSemaphore"); err != nil {
		return nil, err
	}
	if t != 0 {
		return nil, d.errorf(core.ErrNotSupported, "NewSemaphore", "a semaphore of OpenCL cannot be exported as %v", t)
	}
	return semaphore{stream.NewTimeline(), d}, nil
}

// Signal sets the value when everything that was enqueued on s before is done, failed or not.
func (m semaphore) Signal(s core.Stream, value uint64) error {
	q, err := devicebase.StreamOf[*queue](&m.device.Device, "Signal", s)
	if err != nil {
		return err
	}
	return m.Timeline.Signal(signaller{q}, value)
}

// WaitOn makes s wait by a user event.
func (m semaphore) WaitOn(s core.Stream, value uint64) error {
	if _, err := m.Value(); err != nil {
		return err
	}
	q, err := devicebase.StreamOf[*queue](&m.device.Device, "WaitOn", s)
	if err != nil {
		return err
	}
	reached := m.At(value)
	if done, err := reached.Done(); done { // checked without q.mu, which Signal locks while the timeline's mutex is held
		return err
	}
	if err := q.lock("WaitOn"); err != nil {
		return err
	}
	defer q.mu.Unlock()
	return q.waitForHost(reached)
}

// signaller is a stream that runs the signals of a timeline as host work.
type signaller struct{ *queue }

// Enqueue runs work when everything that was enqueued before is done, failed or not. The error of work is
// dropped: it means that another stream has set a larger value.
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
