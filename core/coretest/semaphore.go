package coretest

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

var liveSemaphores = core.NewLiveCounter("coretest.Semaphore")

// semaphore is a timeline of a simulated device. It cannot leave its backend.
type semaphore struct {
	device *Device
	value  uint64 // guarded by the scheduler's mutex, and so is closed
	closed bool
}

var _ core.Semaphore = (*semaphore)(nil)

// NewSemaphore returns a semaphore at value 0. It fails with core.ErrNotSupported
// if it is to be exported: the device is no core.SemaphoreExporter.
func (d *Device) NewSemaphore(ctx context.Context, t core.HandleType) (core.Semaphore, error) {
	if err := d.call("NewSemaphore"); err != nil {
		return nil, err
	}
	if t != 0 {
		return nil, d.backend.errorf(core.ErrNotSupported, "NewSemaphore", "semaphores cannot be exported as %v", t)
	}
	liveSemaphores.Add(1)
	return &semaphore{device: d}, nil
}

// Signal enqueues on s that the counter is set to value. The work fails with
// core.ErrInvalid if it is not larger by then.
func (m *semaphore) Signal(s core.Stream, value uint64) error {
	own, err := m.own("Signal", s)
	if err != nil {
		return err
	}
	c := own.scheduler()
	return own.enter("Signal", step{work: func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if value <= m.value {
			return m.device.backend.errorf(core.ErrInvalid, "Signal", "value %d must be larger than %d", value, m.value)
		}
		m.value = value
		return nil
	}})
}

// WaitOn makes later work on s wait until the counter has reached value.
func (m *semaphore) WaitOn(s core.Stream, value uint64) error {
	own, err := m.own("WaitOn", s)
	if err != nil {
		return err
	}
	return own.enter("WaitOn", step{reach: m, value: value})
}

// own finds the stream of this backend that s must be.
func (m *semaphore) own(call string, s core.Stream) (*Stream, error) {
	if _, err := m.Value(); err != nil {
		return nil, err
	}
	own, ok := s.(*Stream)
	if !ok || own.device.backend != m.device.backend {
		return nil, m.device.backend.errorf(core.ErrNotSupported, call, "%T is no stream of this backend", s)
	}
	return own, nil
}

// Value is the counter now.
func (m *semaphore) Value() (uint64, error) {
	c := m.device.backend.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.closed {
		return 0, m.device.backend.errorf(core.ErrClosed, "Value", "the semaphore was closed")
	}
	return m.value, nil
}

// Wait runs work until the counter has reached value.
func (m *semaphore) Wait(ctx context.Context, value uint64) error {
	if _, err := m.Value(); err != nil {
		return err
	}
	return m.device.backend.scheduler.await(ctx, nil, func() bool { return m.value >= value })
}

// Close releases the semaphore.
func (m *semaphore) Close() error {
	c := m.device.backend.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	if !m.closed {
		m.closed = true
		liveSemaphores.Add(-1)
	}
	return nil
}
