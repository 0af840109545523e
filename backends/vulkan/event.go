//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

// event is done when an item of a queue is.
type event struct {
	queue  *queue
	number uint64
	passed atomic.Bool
}

var _ core.Event = (*event)(nil)

// Done asks the driver for the timeline's value.
func (e *event) Done() (bool, error) {
	q := e.queue
	if !e.passed.Load() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.timeline != 0 { // else the queue was closed after all its items
			value, err := q.device.driver.Counter(q.timeline)
			if err = q.device.noteLoss(err); err != nil {
				return true, err
			}
			if value < e.number {
				if lost := q.device.lostError(); lost != nil {
					return true, lost
				}
				return false, nil
			}
		}
		q.device.hostWork.Load()
		e.passed.Store(true)
		return true, q.failed[e.number]
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return true, q.failed[e.number]
}

// Wait waits in the driver, a short time at once.
func (e *event) Wait(ctx context.Context) error {
	for {
		if done, err := e.Done(); done {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := e.queue.waitInDriver(e.number); err != nil {
			return err
		}
	}
}

// waitInDriver waits until an item is done or patience has run out.
func (q *queue) waitInDriver(number uint64) error {
	q.mu.Lock()
	if q.timeline == 0 {
		q.mu.Unlock()
		return nil
	}
	q.inDriver++
	q.mu.Unlock()
	_, err := q.device.driver.Wait(q.timeline, number, patience)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inDriver--
	q.turned.Broadcast()
	return q.device.noteLoss(err)
}
