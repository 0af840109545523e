//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"
	"slices"
	"time"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
)

// newClock makes the clock of a device. A reading is a reference to the event of a marker, whose end the driver has
// noted.
func (d *device) newClock() devicebase.Clock[driver.Event] {
	return devicebase.Clock[driver.Event]{
		Device: &d.Device,
		Lost:   func() error { return nil },
		Between: func(from, to driver.Event) (time.Duration, error) {
			start, s := driver.EndTime(from)
			end, t := start, s
			if s == driver.Success {
				end, t = driver.EndTime(to)
			}
			return time.Duration(int64(end - start)), d.check(t, "clGetEventProfilingInfo", "the end of a marker")
		},
		Release: func(e driver.Event) { driver.ReleaseEvent(e) },
	}
}

// NewTimedStream returns a command queue with CL_QUEUE_PROFILING_ENABLE. Other streams do without, since a driver may
// then take the time of every command.
func (d *device) NewTimedStream(ctx context.Context) (core.Stream, error) {
	const call = "NewTimedStream"
	if err := d.Info.Require(core.CapDeviceClock, call); err != nil {
		return nil, err
	}
	return d.newStream(ctx, call, driver.QueueTimed)
}

// ClockResolution returns CL_DEVICE_PROFILING_TIMER_RESOLUTION; 0 if the device has no clock.
func (d *device) ClockResolution() time.Duration { return d.clockStep }

// Mark enqueues a marker. It takes streams of NewTimedStream, and imported ones with CL_QUEUE_PROFILING_ENABLE.
func (d *device) Mark(s core.Stream) (core.Mark, error) {
	const call = "Mark"
	if err := d.Info.Require(core.CapDeviceClock, call); err != nil {
		return nil, err
	}
	return d.clock.Mark(func() (driver.Event, core.Event, error) {
		q, err := devicebase.StreamOf[*queue](&d.Device, call, s)
		if err != nil {
			return 0, nil, err
		}
		if err := q.lock(call); err != nil {
			return 0, nil, err
		}
		defer q.mu.Unlock()
		if !q.timed {
			return 0, nil, d.errorf(core.ErrNotSupported, call, "the queue was made without CL_QUEUE_PROFILING_ENABLE: NewTimedStream makes one with it")
		}
		return q.markTime()
	})
}

// markTime enqueues a marker, and returns a reference to it, which the caller releases, and its event. q.mu is held.
func (q *queue) markTime() (driver.Event, core.Event, error) {
	e, err := q.marker()
	if err != nil {
		return 0, nil, err
	}
	raw := e.raw
	e.hostTasks = slices.Clone(q.hostTasks) // the next event reports their errors, too
	q.prune()
	q.events = append(q.events, e)
	if err := q.inOrder(); err != nil {
		return 0, nil, err
	}
	if err := q.device.check(driver.Flush(q.raw), "clFlush", "after a marker"); err != nil {
		return 0, nil, err
	}
	// q.mu is held, so q has not released its own reference.
	return raw, e, q.device.check(driver.RetainEvent(raw), "clRetainEvent", "the end of a marker")
}
