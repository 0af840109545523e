package cpu

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// queue is a stream of a device, which counts it until it is closed.
type queue struct {
	*stream.Queue
	device *device
	closed sync.Once
}

var _ core.Stream = (*queue)(nil)

// NewStream returns an ordered queue whose work runs on a goroutine of its own.
func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	if err := d.gate.Enter(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, closedDevice("NewStream")
	}
	d.streams++
	return &queue{Queue: stream.NewQueue(d), device: d}, nil
}

func (q *queue) Close() error {
	err := q.Queue.Close()
	q.closed.Do(func() {
		q.device.mu.Lock()
		defer q.device.mu.Unlock()
		q.device.streams--
	})
	return err
}
