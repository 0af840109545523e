package remote

import (
	"context"
	"runtime"
	"time"
)

// await waits until ready returns true, and then returns with c.mu held. It calls ready with c.mu held. On failure it
// returns ctx's error or that of the connection, and c.mu is not held.
func (c *Conn) await(ctx context.Context, ready func() bool) error {
	return c.awaitEither(ctx, ready, false)
}

// awaitArrived is await for what the peer may have sent before it closed the connection: that it has is no error then, and ready
// sees to the end of the wait.
func (c *Conn) awaitArrived(ctx context.Context, ready func() bool) error {
	return c.awaitEither(ctx, ready, true)
}

func (c *Conn) awaitEither(ctx context.Context, ready func() bool, arrived bool) error {
	var start time.Time // when this call began to poll
	polls, others := false, false
	defer func() {
		if polls {
			<-c.polling
		}
	}()
	mayPoll := c.options.Poll > 0
	for {
		c.mu.Lock()
		if c.err != nil && !(arrived && c.parted) {
			defer c.mu.Unlock()
			return c.err
		}
		if ready() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			c.mu.Unlock()
			return err
		}
		if polls && time.Since(start) < c.options.Poll {
			c.mu.Unlock()
			if others {
				runtime.Gosched() // what has come was for a call on another goroutine, which would wait for this one to sleep
			}
			others = c.worker.Poll()
			continue
		}
		if polls { // for long enough
			polls, mayPoll = false, false
			<-c.polling
		}
		var turn chan struct{}
		if mayPoll {
			select {
			case c.polling <- struct{}{}:
				c.mu.Unlock()
				polls, start = true, time.Now()
				continue
			default:
				turn = c.polling
			}
		}
		changed := c.watch()
		c.mu.Unlock()
		select {
		case <-changed:
		case turn <- struct{}{}:
			polls, start = true, time.Now()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch returns a channel that notify closes. c.mu is held.
func (c *Conn) watch() <-chan struct{} {
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// notify wakes those that wait. c.mu is held.
func (c *Conn) notify() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// result waits for an operation of UCX. On failure other than that of the operation, the operation goes on.
func (c *Conn) result(ctx context.Context, results <-chan error) (ended bool, err error) {
	select {
	case err := <-results:
		return true, err
	default:
	}
	turn := c.polling
	if c.options.Poll == 0 {
		turn = nil
	}
	select {
	case err := <-results:
		return true, err
	case turn <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	for start := time.Now(); time.Since(start) < c.options.Poll && ctx.Err() == nil; {
		others := c.worker.Poll()
		select {
		case err := <-results:
			<-c.polling
			return true, err
		default:
		}
		if others { // as in await
			runtime.Gosched()
		}
	}
	<-c.polling
	select {
	case err := <-results:
		return true, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// lock takes one of the channels that serve as locks.
func (c *Conn) lock(ctx context.Context, l chan struct{}) error {
	select {
	case l <- struct{}{}:
		return nil
	default:
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-c.life.Done():
		return c.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
