//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var liveStreams = core.NewLiveCounter("vulkan.Stream")

// queue is a stream: a timeline semaphore whose value tells how much of its work is
// done. Items of work are numbered; item n sets the value to n when it and all
// before it are done. Items of the device are submitted at once if they can be.
// Items of the host, and all that come behind them, wait on a goroutine: the VkQueue
// is every stream's, so nothing that must wait for the host may stand in it. What
// stands in it runs in order, since each command begins with a barrier: streams
// wait for what is submitted by standing behind it.
type queue struct {
	device   *device
	timeline uint64

	mu        sync.Mutex
	turned    sync.Cond // running or inDriver has changed
	closed    bool
	next      uint64 // number of the newest item
	submitted uint64 // items up to here are submitted or done
	later     []item
	running   bool             // a goroutine works on later
	inDriver  int              // calls that wait in the driver for the timeline
	failed    map[uint64]error // items that failed
	err       error            // the first since the last Synchronize
	pool      uint64           // VkCommandPool
	commands  []*command       // all of them
}

var _ core.Stream = (*queue)(nil)

// item is a piece of work. Either submit or host is set.
type item struct {
	number uint64
	// submit puts work on the VkQueue that sets the timeline to number. q.mu is held.
	submit func(number uint64) error
	// host does work of the host when all before it is done; if early, when item after
	// is, and it has no number then.
	host  func() error
	early bool
	after uint64
}

func newQueue(d *device) (*queue, error) {
	q := &queue{device: d, failed: make(map[uint64]error)}
	q.turned.L = &q.mu
	var err error
	if q.timeline, err = d.driver.NewTimeline(false); err != nil {
		return nil, err
	}
	if q.pool, err = d.driver.NewCommandPool(); err != nil {
		d.driver.DestroyTimeline(q.timeline)
		return nil, err
	}
	return q, nil
}

func (q *queue) Device() core.Device { return q.device.outer }

// Native is 0: a VkQueue is not the stream's own. See [Buffer] for it.
func (q *queue) Native() uintptr { return 0 }

// lock takes q.mu, unless the stream was closed or the device is lost.
func (q *queue) lock(call string) error {
	q.mu.Lock()
	err := q.device.lostError()
	if q.closed {
		err = errorf(core.ErrClosed, call, "the stream was closed")
	}
	if err != nil {
		q.mu.Unlock()
	}
	return err
}

// add puts an item behind the others. If it fails, there is no item. q.mu is held.
func (q *queue) add(i item) error {
	i.number = q.next + 1
	if i.early {
		i.number = q.next
	}
	if i.host == nil && !q.running {
		if err := i.submit(i.number); err != nil {
			return q.device.noteLoss(err)
		}
		q.submitted = i.number
	} else {
		q.later = append(q.later, i)
		if !q.running {
			q.running = true
			go q.catchUp()
		}
	}
	q.next = i.number
	return nil
}

// catchUp works on the items of later until there are none.
func (q *queue) catchUp() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.later) > 0 {
		i := q.later[0]
		q.later[0] = item{}
		q.later = q.later[1:]
		if i.early {
			q.mu.Unlock()
			q.device.takeEarly(q, i)
			q.mu.Lock()
			continue
		}
		var err error
		if i.host == nil {
			err = q.device.noteLoss(i.submit(i.number))
		}
		if i.host != nil || err != nil {
			q.mu.Unlock()
			err = q.takeTurn(i, err)
			q.mu.Lock()
		}
		if err != nil {
			q.failed[i.number] = err
			if q.err == nil {
				q.err = err
			}
		}
		q.submitted = i.number
	}
	q.running = false
	q.turned.Broadcast()
}

// takeTurn does the work of an item on the host, unless that has failed before, and
// moves the timeline on.
func (q *queue) takeTurn(i item, failed error) error {
	d := q.device
	if err := d.await(driver.Point{Timeline: q.timeline, Value: i.number - 1}); err != nil && failed == nil {
		failed = err
	}
	if failed == nil {
		failed = i.host()
	}
	d.hostWork.Add(1)
	if err := d.noteLoss(d.driver.Signal(q.timeline, i.number)); err != nil && failed == nil {
		failed = err
	}
	return failed
}

// takeEarly does the work of an early item, unless the device is lost: the items
// behind it tell.
func (d *device) takeEarly(q *queue, i item) {
	if d.await(driver.Point{Timeline: q.timeline, Value: i.after}) == nil {
		_ = i.host()
	}
}

// await blocks until a timeline has a value or the device is lost.
func (d *device) await(p driver.Point) error {
	for {
		reached, err := d.driver.Wait(p.Timeline, p.Value, patience)
		if reached || err != nil {
			d.hostWork.Load()
			return d.noteLoss(err)
		}
		if err := d.lostError(); err != nil {
			return err
		}
	}
}

// patience bounds one wait in the driver, so that contexts and losses are seen.
const patience = 10 * time.Millisecond

// Wait serves events of streams of this device. If their work is submitted, later
// items stand behind it on the VkQueue; if it is still held back, they are held back,
// too. For other events it fails with ErrNotSupported.
func (q *queue) Wait(e core.Event) error {
	if e == nil {
		return nil
	}
	own, ok := e.(*event)
	if !ok || own.queue.device != q.device {
		return errorf(core.ErrNotSupported, "Wait", "%T is no event of this VkDevice: the host must wait", e)
	}
	done, _ := own.Done()
	submitted := done || own.queue == q || own.queue.isSubmitted(own.number)
	if err := q.lock("Wait"); err != nil {
		return err
	}
	defer q.mu.Unlock()
	switch {
	case submitted:
		return nil
	default:
		return q.holdBack(func() error {
			_ = own.Wait(context.Background()) // what failed is told by the tensors that it wrote
			return nil
		})
	}
}

func (q *queue) isSubmitted(number uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.submitted >= number
}

// holdBack keeps later items back until wait returns. q.mu is held.
func (q *queue) holdBack(wait func() error) error { return q.add(item{host: wait}) }

// Record returns an event for the newest item.
func (q *queue) Record() (core.Event, error) {
	if err := q.lock("Record"); err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	return &event{queue: q, number: q.next}, nil
}

// Synchronize waits for all items.
func (q *queue) Synchronize(ctx context.Context) error {
	e, err := q.Record()
	if err != nil {
		return err
	}
	if err := e.Wait(ctx); err != nil {
		if done, _ := e.Done(); !done {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	err, q.err = q.err, nil
	if lost := q.device.lostError(); lost != nil {
		err = lost
	}
	return err
}

// Close waits for the items, and returns the first error that no Synchronize
// returned. Another Close waits, too, and returns nil.
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		for q.timeline != 0 {
			q.turned.Wait()
		}
		return nil
	}
	q.closed = true
	q.finish()
	q.device.dropStream()
	return q.err
}

// finish waits for the items and destroys what the queue is made of. Nobody adds any
// more. q.mu is held.
func (q *queue) finish() {
	for q.running {
		q.turned.Wait()
	}
	q.inDriver++
	q.mu.Unlock()
	err := q.device.await(driver.Point{Timeline: q.timeline, Value: q.next})
	if err != nil { // the device is lost: what it still holds is given back with it
		_ = q.device.driver.WaitIdle()
	}
	q.mu.Lock()
	q.inDriver--
	for q.inDriver > 0 {
		q.turned.Wait()
	}
	if q.err == nil {
		q.err = err
	}
	for _, c := range q.commands {
		c.destroySets(q.device)
	}
	q.device.driver.DestroyCommandPool(q.pool)
	q.device.driver.DestroyTimeline(q.timeline)
	q.timeline = 0
	q.turned.Broadcast()
}

// command is a command buffer of a queue, and the descriptor sets that it has for
// pipelines.
type command struct {
	handle uint64
	busy   uint64 // the item that uses it
	sets   map[*driver.Pipeline]set
}

type set struct{ pool, handle uint64 }

// takeCommand finds a command buffer that is not in use. The caller sets busy. q.mu is held.
func (q *queue) takeCommand() (*command, error) {
	if len(q.commands) > 0 {
		value, err := q.device.driver.Counter(q.timeline)
		if err != nil {
			return nil, err
		}
		for i, c := range q.commands {
			if c.busy <= value {
				q.commands = append(slices.Delete(q.commands, i, i+1), c) // the one used longest ago stands first
				return c, nil
			}
			if i == 1 { // those behind were used later
				break
			}
		}
	}
	handle, err := q.device.driver.NewCommand(q.pool)
	if err != nil {
		return nil, err
	}
	c := &command{handle: handle, sets: make(map[*driver.Pipeline]set)}
	q.commands = append(q.commands, c)
	return c, nil
}

// setFor returns the descriptor set that c has for a pipeline.
func (c *command) setFor(d *device, p *driver.Pipeline) (uint64, error) {
	if s, ok := c.sets[p]; ok {
		return s.handle, nil
	}
	pool, handle, err := d.driver.NewSet(p)
	if err == nil {
		c.sets[p] = set{pool, handle}
	}
	return handle, err
}

func (c *command) destroySets(d *device) {
	for _, s := range c.sets {
		d.driver.DestroySet(s.pool)
	}
}
