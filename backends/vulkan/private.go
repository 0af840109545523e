//go:build vulkan && linux && cgo

package vulkan

import (
	"slices"
	"sync"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
)

// privateQueues are the VkQueues of a device other than its first one. A stream whose work must wait on the device for
// something that may need the host, or another API, gets a private queue: a VkQueue that waits holds up everything
// that is submitted to it later. Work in the first VkQueue never waits for more than submitted work of that VkQueue.
type privateQueues struct {
	mu  sync.Mutex
	all []privateQueue
}

type privateQueue struct {
	queue int    // as in driver.Submission
	user  *queue // nil if nobody uses it
	last  uint64 // it belongs to user until this item of user is done
	waits []queuedWait
}

// queuedWait is a wait for a semaphore that was submitted to a private queue. It is over when the item of the stream
// is done.
type queuedWait struct {
	item      *event
	semaphore driver.Point
	shared    bool // another API or process may know the semaphore
}

func (w queuedWait) over() bool { return w.item.Over() }

func newPrivateQueues(count int) privateQueues {
	all := make([]privateQueue, count)
	for i := range all {
		all[i].queue = i + 1
	}
	return privateQueues{all: all}
}

// reserve gives the stream a private queue until its item with a number, which is not submitted yet, is done. It
// reports whether there was one. q.Mu is held.
func (q *queue) reserve(number uint64) bool {
	ps := &q.device.private
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := q.private; p != nil && p.user == q {
		p.last = max(p.last, number)
		return true
	}
	for i := range ps.all {
		if p := &ps.all[i]; p.user == nil || p.user.Has(p.last) {
			p.user, p.last, p.waits = q, number, nil
			q.private = p
			return true
		}
	}
	return false
}

// Refused takes back what reserve did for an item that was not enqueued. q.Mu is held.
func (q *queue) Refused() {
	ps := &q.device.private
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := q.private; p != nil && p.user == q {
		p.last = min(p.last, q.Newest())
	}
}

// leave gives a private queue back, if all work in it is done.
func (q *queue) leave() {
	ps := &q.device.private
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := q.private; p != nil && p.user == q {
		p.user, p.waits = nil, nil
	}
	q.private = nil
}

// place returns how an item is submitted: to the stream's private queue, if it has one, else to the first VkQueue.
// q.Mu is held.
func (q *queue) place(i item) driver.Submission {
	s := driver.Submission{Queue: q.stay(i.Number), Signal: q.point(i.Number)}
	if s.Queue != q.on { // what the stream does elsewhere comes first, and what it has done there becomes visible
		s.Waits = append(s.Waits, q.point(i.Number-1))
	}
	if s.Queue != 0 { // no place in this VkQueue is behind them
		for _, p := range i.Before {
			if e, ok := p.(*event); ok && !e.Over() {
				s.Waits = append(s.Waits, point(e))
			}
		}
	}
	return s
}

// send submits what place returned. q.Mu is held.
func (q *queue) send(s driver.Submission) error {
	if err := q.device.driver.Submit(s); err != nil {
		return err
	}
	if s.Queue != q.on {
		q.on, q.onSince = s.Queue, s.Signal.Value
	}
	return nil
}

// stay returns the VkQueue for an item: the stream's private queue as long as there is unfinished work in it, or items
// that need it. q.Mu is held.
func (q *queue) stay(number uint64) int {
	if q.private == nil {
		return 0
	}
	ps := &q.device.private
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := q.private
	switch {
	case p.user != q:
	case p.last < number && q.Has(p.last):
		p.user, p.waits = nil, nil
	default:
		p.last = max(p.last, number)
		return p.queue
	}
	q.private = nil
	return 0
}

// noteWait records a wait for a semaphore that was submitted to the stream's private queue. q.Mu is held.
func (q *queue) noteWait(w queuedWait) {
	ps := &q.device.private
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := q.private
	p.waits = append(slices.DeleteFunc(p.waits, func(w queuedWait) bool { return w.over() }), w)
}

// waitsFor returns the unfinished waits for a semaphore in all private queues.
func (ps *privateQueues) waitsFor(timeline uint64) []queuedWait {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var found []queuedWait
	for _, p := range ps.all {
		for _, w := range p.waits {
			if w.semaphore.Timeline == timeline && !w.over() {
				found = append(found, w)
			}
		}
	}
	return found
}

// endPrivateWaits ends what the private queues of a lost device wait for: it may never come, and a driver need not know
// yet that the device is lost. Semaphores that others know are left alone, since they would take a value for the work
// that it stands for.
func (d *device) endPrivateWaits() {
	d.private.mu.Lock()
	defer d.private.mu.Unlock()
	for _, p := range d.private.all {
		for _, w := range p.waits {
			if w.shared || w.over() {
				continue
			}
			if now, err := d.driver.Counter(w.semaphore.Timeline); err == nil && now < w.semaphore.Value {
				_ = d.driver.Signal(w.semaphore.Timeline, w.semaphore.Value)
			}
		}
	}
}

// drain waits until a lost device has no work. As long as the driver does not know of the loss, that includes waits for
// semaphores that others know.
func (d *device) drain() {
	d.endPrivateWaits()
	_ = d.driver.WaitIdle()
}
