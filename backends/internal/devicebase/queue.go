package devicebase

import (
	"context"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Queue is a stream of a device whose work runs in a goroutine of the host. The device counts it as open
// until it is closed.
type Queue struct {
	*stream.Queue
	Opened backendkit.OpenItem
}

var _ core.Stream = (*Queue)(nil)

// NewQueue opens a queue.
func (d *Device) NewQueue(ctx context.Context) (q *Queue, err error) {
	if err := d.Gate.Enter(ctx); err != nil {
		return nil, err
	}
	opened, err := d.Open("NewStream", "stream", func() error {
		q = &Queue{Queue: stream.NewQueue(d.self)}
		return nil
	})
	if err != nil {
		return nil, err
	}
	q.Opened = opened
	return q, nil
}

// Close waits for the work and closes the queue.
func (q *Queue) Close() error {
	err := q.Queue.Close()
	q.Opened.Close()
	return err
}
