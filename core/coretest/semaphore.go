package coretest

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

var liveSemaphores = live.NewCounter("coretest.Semaphore")

// semaphore is a timeline of a simulated device. It cannot be exported.
type semaphore struct {
	device *Device
	value  uint64 // guarded by the scheduler's mutex
	closed bool   // guarded by the scheduler's mutex
}

var _ core.Semaphore = (*semaphore)(nil)

// NewSemaphore returns a semaphore at value 0. It returns core.ErrNotSupported if t is not 0,
// because the device cannot export semaphores.
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

// Signal enqueues work on s that sets the counter to value. The work fails with
// core.ErrInvalid unless value is larger than the counter.
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

// Set raises the counter to value at once, which is how a test signals for another device.
func (m *semaphore) Set(value uint64) {
	c := m.device.backend.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	m.value = max(m.value, value)
	c.changed.Broadcast()
}

// WaitOn makes later work on s wait until the counter has reached value.
func (m *semaphore) WaitOn(s core.Stream, value uint64) error {
	own, err := m.own("WaitOn", s)
	if err != nil {
		return err
	}
	return own.enter("WaitOn", step{reach: m, value: value})
}

// own returns s as a stream of this backend, which it must be.
func (m *semaphore) own(call string, s core.Stream) (*Stream, error) {
	if _, err := m.Value(); err != nil {
		return nil, err
	}
	own, ok := s.(*Stream)
	if !ok || own.device.backend != m.device.backend {
		return nil, m.device.backend.errorf(core.ErrNotSupported, call, "%T is not a stream of this backend", s)
	}
	return own, nil
}

// Value returns the current value of the counter.
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

// Close closes the semaphore. Closing it again does nothing.
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
