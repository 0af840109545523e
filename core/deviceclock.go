package core

import (
	"context"
	"time"
)

// DeviceClock measures how long work takes on the device, by the clock of the device. The
// host measures more than that: the calls that enqueue the work, the time until the device
// begins, and the time until the host learns of the end.
//
//	clock, ok := core.As[core.DeviceClock](d)
//	...
//	s, err := clock.NewTimedStream(ctx)
//	start, err := clock.Mark(s)
//	err = d.Copy(ctx, s, dst, src)
//	end, err := clock.Mark(s)
//	err = s.Synchronize(ctx)
//	took, err := end.Since(start)
type DeviceClock interface {
	// NewTimedStream returns a stream whose work can be timed. Otherwise the stream is like
	// that of [Device.NewStream], and the caller closes it. Some APIs take the time only on
	// queues that were made for it, where every command may cost more.
	NewTimedStream(ctx context.Context) (Stream, error)
	// Mark enqueues on s a reading of the clock. The device reads the clock when all work
	// that was enqueued on s before is done, and before work that is enqueued on s later
	// begins. The caller closes the mark; s may be closed before. Mark returns ErrDevice if s
	// is nil or belongs to another device, ErrClosed if s or the device was closed,
	// ErrDeviceLost if the device is lost, and ErrNotSupported if the device cannot time s,
	// which NewTimedStream did not return.
	Mark(s Stream) (Mark, error)
	// ClockResolution returns the length of a step of the clock, which is positive. The time
	// between two marks may be wrong by that much.
	ClockResolution() time.Duration
}

// Mark is one reading of the clock of a device, which [DeviceClock.Mark] enqueued. It is safe
// for concurrent use.
type Mark interface {
	// Event returns an event that is done when the clock was read, as [Stream.Record] returns
	// it. It can be used after the mark was closed.
	Event() Event
	// Since returns the time on the device from the reading of earlier to the reading of this
	// mark. It is negative if earlier was read later. Since does not wait. It returns
	// ErrInvalid if one of the two clocks was not read yet: wait for the events of both
	// first. It returns the error of the work if that has failed, ErrDevice if earlier is nil
	// or a mark of another device, and ErrClosed if one of the marks was closed. It returns
	// ErrNotSupported if the API does not compare the clocks of the two readings, because
	// they are of two streams, or the stream has waited for a semaphore between them.
	Since(earlier Mark) (time.Duration, error)
	// Close releases the mark. It does not wait for the reading. A second Close does nothing.
	// A device cannot be closed while marks are open.
	Close() error
}
