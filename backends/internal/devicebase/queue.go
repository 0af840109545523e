package devicebase

import (
	"context"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/private"
	"github.com/dlx-go/dlx/stream"
)

var privateStream = private.Stream.(interface {
	Start(q *stream.Queue, start func() (poll func() (bool, error), err error)) error
})

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

// Start enqueues work that goes on by itself after start has returned. The queue calls poll until it reports true, and then with
// the error of the work; poll may block for a short time. Further work is started meanwhile, which must be carried out in
// the order of its start, also that of other queues of the device. Everything else waits until the work is done.
func Start(q *stream.Queue, start func() (poll func() (bool, error), err error)) error {
	return privateStream.Start(q, start)
}
