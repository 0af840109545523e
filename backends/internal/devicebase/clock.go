package devicebase

import (
	"sync"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// Clock makes the marks of a device. R is what the backend keeps of one reading of the clock.
type Clock[R any] struct {
	Device *Device
	// Lost returns why the device is lost, or nil if it is not.
	Lost func() error
	// Between returns the time between two readings that were taken.
	Between func(from, to R) (time.Duration, error)
	// Release releases a reading, once. It may not have been taken yet.
	Release func(R)
}

// Mark calls f, which enqueues a reading and returns it with its event. The device cannot be closed before the mark.
func (c *Clock[R]) Mark(f func() (R, core.Event, error)) (core.Mark, error) {
	if err := c.Device.Hold("Mark"); err != nil {
		return nil, err
	}
	defer c.Device.Drop()
	if err := c.Lost(); err != nil {
		return nil, err
	}
	reading, e, err := f()
	if err != nil {
		return nil, err
	}
	return &mark[R]{clock: c, opened: c.Device.Opened("mark"), event: e, reading: reading, users: 1}, nil
}

// mark is a reading of a clock.
type mark[R any] struct {
	clock   *Clock[R]
	opened  backendkit.OpenItem
	event   core.Event
	reading R

	mu     sync.Mutex
	closed bool
	users  int // calls that use the reading, and 1 for the open mark
}

// Event returns the event of the reading.
func (m *mark[R]) Event() core.Event { return m.event }

// Since returns the time between two readings of one clock.
func (m *mark[R]) Since(earlier core.Mark) (time.Duration, error) {
	from, ok := earlier.(*mark[R])
	if !ok || from.clock != m.clock {
		return 0, m.clock.Device.Errorf(core.ErrDevice, "Since", "the other mark is not one of %v", m.clock.Device.ID())
	}
	for _, x := range [...]*mark[R]{from, m} {
		if err := x.use(); err != nil {
			return 0, err
		}
		defer x.drop()
	}
	return m.clock.Between(from.reading, m.reading)
}

// use keeps the reading until drop is called. It fails if the reading was not taken.
func (m *mark[R]) use() error {
	d := m.clock.Device
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return d.Errorf(core.ErrClosed, "Since", "the mark was closed")
	}
	done, err := m.event.Done()
	if err == nil {
		err = m.clock.Lost()
	}
	if err == nil && !done {
		err = d.Errorf(core.ErrInvalid, "Since", "the clock was not read yet: wait for the event of the mark")
	}
	if err == nil {
		m.users++
	}
	return err
}

func (m *mark[R]) drop() {
	m.mu.Lock()
	m.users--
	last := m.users == 0
	m.mu.Unlock()
	if last {
		m.clock.Release(m.reading)
		m.opened.Close()
	}
}

// Close releases the reading, or leaves that to a call that still uses it.
func (m *mark[R]) Close() error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	m.mu.Unlock()
	if first {
		m.drop()
	}
	return nil
}
