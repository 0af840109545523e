package cmdqueue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// Queue is what a backend's stream, of type Q, embeds. Items of work are numbered. Commands of the device are submitted at
// once if possible. Items of the host, and all items after them, wait in a goroutine: nothing that waits for the host is
// submitted, since it could hold up what others submit, or wait longer than the system lets it.
type Queue[Q any] struct {
	Mu sync.Mutex // guards the fields below hosting, and fields of the stream that embeds this one

	self     Q
	driver   Driver
	device   *Base
	opened   backendkit.OpenItem
	marker   Commands[Q]
	most     uint64 // items that may be unfinished when commands are submitted; 0 means any number
	failures failures
	shown    atomic.Bool  // other code has the driver's queue, and may use it
	hosting  atomic.Int32 // host work that is running

	changed   sync.Cond // running or finished has changed
	closed    bool
	finished  bool    // closed, and without work
	next      uint64  // number of the newest item
	submitted uint64  // items up to here are submitted or done
	before    []Point // what the next item waits for
	later     []Item[Q]
	running   bool      // a goroutine works on later
	last      *Event[Q] // recorded last
}

// Driver is what a backend does for a Queue. Item n is done when the timeline of the queue has the value n.
type Driver interface {
	// Has reports whether an item is done, and with it all before it.
	Has(number uint64) bool
	// Ask waits until an item is done, for a short time or until ctx ends.
	Ask(ctx context.Context, number uint64)
	// Await blocks until an item is done. It fails only if it need not be done any more, since the device is lost.
	Await(number uint64) error
	// Finish records that an item of the host is done, and all before it. It fails if that cannot be recorded.
	Finish(number uint64) error
	// Ended returns why no unfinished item need be done any more, or nil. It is nil for a driver that also ends what a lost
	// device had to do.
	Ended() error
	// Refused takes back what was done for commands of an item that is not added. Mu is held.
	Refused()
	// Keep keeps the timeline until Drop, also if the stream is closed.
	Keep()
	Drop()
	// Leave gives back what belongs to the stream, when its items up to number are done, or failed says why they may not be.
	Leave(number uint64, failed error)
}

// Item is a piece of work. Commands or Host is set, or both: the host then does the same if the commands are not submitted.
type Item[Q any] struct {
	Number   uint64 // set by Add
	Commands Commands[Q]
	// Host is work of the host. It runs when everything before it is done. An early item runs when the item numbered After
	// is done, and has no number of its own. The caller runs quick work itself, if everything before it is done already.
	Host  func() error
	Quick bool
	Early bool
	After uint64
	// Before is set by Add: what the item waits for besides earlier items.
	Before []Point
	// Over is called, if set, when the item is over, before anybody sees that it is done. A driver that does not say when
	// commands are done calls it never for those.
	Over func(number uint64, failed error)
}

// Commands are work of the device.
type Commands[Q any] interface {
	// Submit submits the commands of an item of q, so that they run after all earlier items and all of i.Before, and item
	// i.Number is done when they are. If it fails, nothing was submitted. Its error is ErrByHost if the host can do it. q.Mu
	// is held.
	Submit(q Q, i Item[Q]) error
}

// ErrByHost is the error of commands that must leave their work to the host.
var ErrByHost = errors.New("the host must do the work")

// Point is what an item waits for besides earlier items of its stream, such as an event of another one. Its signal is
// submitted.
type Point interface {
	Over() bool // reports whether it is known to be reached
	Await() error
	Keep() // keeps the timeline until Drop
	Drop()
}

// Init initialises q as a part of self. The first item has the number value+1. marker are commands that do nothing. Commands
// are submitted while at most most items are unfinished; 0 means any number.
func (q *Queue[Q]) Init(self Q, driver Driver, device *Base, marker Commands[Q], value, most uint64) {
	q.self, q.driver, q.device, q.marker, q.most = self, driver, device, marker, most
	q.next, q.submitted = value, value
	q.changed.L = &q.Mu
	q.last = q.At(value)
}

// Common returns q, for code that has the stream.
func (q *Queue[Q]) Common() *Queue[Q] { return q }

// Enter locks Mu. It fails if the stream was closed or the device is lost.
func (q *Queue[Q]) Enter(call string) error {
	q.Mu.Lock()
	err := q.device.LostError()
	if q.closed {
		err = q.device.Errorf(core.ErrClosed, call, "the stream was closed")
	}
	if err != nil {
		q.Mu.Unlock()
	}
	return err
}

// EnterSubmitted is Enter for a binary semaphore, whose commands must be submitted at once. It fails with ErrNotSupported if the host holds
// items.
func (q *Queue[Q]) EnterSubmitted(call string) error {
	if err := q.Enter(call); err != nil {
		return err
	}
	for q.running && q.driver.Has(q.next) { // its goroutine is about to end
		q.changed.Wait()
	}
	var err error
	switch {
	case q.closed:
		err = q.device.Errorf(core.ErrClosed, call, "the stream was closed")
	case q.running:
		err = q.device.Errorf(core.ErrNotSupported, call, "work before it waits for the host: a binary semaphore cannot be used behind it")
	}
	if err != nil {
		q.Mu.Unlock()
	}
	return err
}

// Newest returns the number of the newest item. Mu is held.
func (q *Queue[Q]) Newest() uint64 { return q.next }

// Holding reports whether the host holds items, which commands would have to wait for. Mu is held.
func (q *Queue[Q]) Holding() bool { return q.running }

// Submitted reports whether an item is submitted or done. Mu is held.
func (q *Queue[Q]) Submitted(number uint64) bool { return q.submitted >= number }

// Hosting reports whether the host does work of the queue just now.
func (q *Queue[Q]) Hosting() bool { return q.hosting.Load() > 0 }

// Show says that other code gets the driver's queue. From now on, events of the stream also stand for commands that this code
// submitted before.
func (q *Queue[Q]) Show() { q.shown.Store(true) }

// Add adds an item after the others. If it fails, the item is not added. Mu is held.
func (q *Queue[Q]) Add(i Item[Q]) error {
	if i.Commands == nil && !i.Early && q.shown.Load() {
		if err := q.Mark(); err != nil { // stands for the work of others
			return err
		}
	}
	return q.add(i)
}

// Mark adds an item that does nothing. Mu is held.
func (q *Queue[Q]) Mark() error { return q.add(Item[Q]{Commands: q.marker}) }

// add is Add, without regard to work of others.
func (q *Queue[Q]) add(i Item[Q]) error {
	i.Number = q.next + 1
	if i.Early {
		i.Number = q.next
	}
	if i.Commands != nil && !q.running && q.hasRoom(i.Number) {
		i.Before = q.before
		err := q.submit(i)
		if err == nil {
			q.next, q.submitted = i.Number, i.Number
			q.forgetBefore() // what is submitted after them runs after them
			return nil
		}
		q.driver.Refused()
		if !errors.Is(err, ErrByHost) {
			return err
		}
		i.Commands = nil
	}
	if i.Quick && !q.running && q.isIdle() {
		q.forgetBefore()
		q.next = i.Number
		q.complete(i, nil)
		q.submitted = i.Number
		return nil
	}
	if i.Early {
		i.Before = slices.Clone(q.before)
		for _, p := range i.Before {
			p.Keep()
		}
	} else { // later items wait for this one
		i.Before, q.before = q.before, nil
	}
	q.later = append(q.later, i)
	q.next = i.Number
	if !q.running {
		q.running = true
		go q.catchUp()
	}
	return nil
}

// submit submits the commands of an item. Mu is held.
func (q *Queue[Q]) submit(i Item[Q]) error {
	if lost := q.device.LostError(); lost != nil { // earlier work may not have been submitted
		return lost
	}
	return q.device.NoteLoss(i.Commands.Submit(q.self, i))
}

// hasRoom reports whether commands of an item can be submitted.
func (q *Queue[Q]) hasRoom(number uint64) bool {
	return q.most == 0 || number <= q.most || q.driver.Has(number-q.most)
}

// Follow makes the next item wait for a point. Mu is held.
func (q *Queue[Q]) Follow(p Point) {
	p.Keep()
	q.before = append(q.before, p)
}

func (q *Queue[Q]) forgetBefore() {
	for _, p := range q.before {
		p.Drop()
	}
	clear(q.before)
	q.before = q.before[:0]
}

// isIdle reports whether everything that a new item waits for is done. Mu is held.
func (q *Queue[Q]) isIdle() bool {
	for _, p := range q.before {
		if !p.Over() {
			return false
		}
	}
	return q.driver.Has(q.next)
}

// catchUp works on the items of later until there are none.
func (q *Queue[Q]) catchUp() {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	for len(q.later) > 0 {
		i := q.later[0]
		q.later[0] = Item[Q]{}
		q.later = q.later[1:]
		if i.Commands != nil && !q.hasRoom(i.Number) {
			q.Mu.Unlock()
			_ = q.driver.Await(i.Number - q.most) // a lost device takes no commands
			q.Mu.Lock()
		}
		var err error
		if i.Commands != nil {
			err = q.submit(i)
		}
		if i.Commands == nil || err != nil {
			if i.Host != nil && q.device.LostError() == nil {
				err = nil
			}
			q.Mu.Unlock()
			if i.Early {
				q.runEarly(i)
			} else {
				q.runInOrder(i, err)
			}
			q.Mu.Lock()
		}
		for _, p := range i.Before {
			p.Drop()
		}
		q.submitted = max(q.submitted, i.Number)
	}
	q.running = false
	q.changed.Broadcast()
}

// runInOrder runs the host work of an item when everything before it is done. failed is an error of the item so far; its work
// does not run then.
func (q *Queue[Q]) runInOrder(i Item[Q], failed error) {
	err := q.driver.Await(i.Number - 1)
	if err == nil {
		err = awaitAll(i.Before)
	}
	if failed == nil {
		failed = err
	}
	q.complete(i, failed)
}

// awaitAll waits for points. It fails only if the device of one is lost: the tensors that the work of an event wrote report
// its other errors.
func awaitAll(points []Point) error {
	for _, p := range points {
		if err := p.Await(); err != nil {
			return err
		}
	}
	return nil
}

// complete runs the host work of an item, unless failed is set, and ends the item.
func (q *Queue[Q]) complete(i Item[Q], failed error) {
	if failed == nil {
		failed = q.runOnHost(i)
	}
	q.End(i, failed)
}

// End ends an item, whose error is failed. A backend calls it for commands whose end the driver reports.
func (q *Queue[Q]) End(i Item[Q], failed error) {
	if i.Over != nil {
		i.Over(i.Number, failed)
	}
	if failed != nil {
		q.failures.add(i.Number, i.Number, failed) // before anybody sees that it is done
	}
	if err := q.driver.Finish(i.Number); err != nil {
		q.failures.note(err)
	}
}

// runEarly runs the host work of an early item, unless the device is lost, which the items after it report. An error of the
// work is reported by the next item, which belongs to the same copy.
func (q *Queue[Q]) runEarly(i Item[Q]) {
	if q.driver.Await(i.After) != nil || awaitAll(i.Before) != nil {
		return
	}
	if err := q.runOnHost(i); err != nil {
		q.failures.add(i.Number+1, i.Number+1, err)
	}
}

// runOnHost runs the work of an item, unless the device is lost: then events may be done as soon as no host work is running.
func (q *Queue[Q]) runOnHost(i Item[Q]) error {
	q.hosting.Add(1)
	defer q.hosting.Add(-1)
	if lost := q.device.LostError(); lost != nil { // asked when hosting is set: see Driver.Ended
		return lost
	}
	return i.Host()
}

// Record returns an event for the newest item.
func (q *Queue[Q]) Record() (core.Event, error) {
	if err := q.Enter("Record"); err != nil {
		return nil, err
	}
	defer q.Mu.Unlock()
	if len(q.before) > 0 || q.shown.Load() { // waits are work, too, and so is what others have submitted
		if err := q.Mark(); err != nil {
			return nil, err
		}
	}
	if q.last.number != q.next {
		q.last = q.Recorded()
	}
	return q.last, nil
}

// Recorded returns an event for the newest item. The next event of Record reports again the errors that this one reports.
// Mu is held.
func (q *Queue[Q]) Recorded() *Event[Q] { return &Event[Q]{q, q.last.number, q.next} }

// At returns an event for an item, which reports no errors of items before it.
func (q *Queue[Q]) At(number uint64) *Event[Q] { return &Event[Q]{q, number, number} }

// Synchronize waits for all items.
func (q *Queue[Q]) Synchronize(ctx context.Context) error {
	e, err := q.Record()
	if err != nil {
		return err
	}
	if err := e.Wait(ctx); err != nil {
		if done, _ := e.Done(); !done {
			return err
		}
	}
	err = q.failures.take()
	if lost := q.device.LostError(); lost != nil {
		err = lost
	}
	return err
}

// Close waits for the items, and returns the first error that no Synchronize returned. A second Close also waits, and returns
// nil.
func (q *Queue[Q]) Close() error {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if q.closed {
		for !q.finished {
			q.changed.Wait()
		}
		return nil
	}
	if q.shown.Load() {
		_ = q.Mark() // stands for the work of others
	}
	q.closed = true
	for q.running {
		q.changed.Wait()
	}
	number, before := q.next, q.before // nothing is added any more
	q.before = nil
	q.Mu.Unlock()
	err := q.driver.Await(number)
	if err == nil {
		err = awaitAll(before)
	}
	for _, p := range before {
		p.Drop()
	}
	q.driver.Leave(number, err)
	q.opened.Close()
	q.Mu.Lock()
	q.finished = true
	q.changed.Broadcast()
	return q.failures.take()
}

// rest waits until no goroutine works on items of the queue, and the items are done.
func (q *Queue[Q]) rest() {
	q.Mu.Lock()
	for q.running {
		q.changed.Wait()
	}
	number := q.next
	q.Mu.Unlock()
	_ = q.driver.Await(number) // if it fails, the device is lost
}

// Fail makes events of items report an error: those numbered from first to last.
func (q *Queue[Q]) Fail(first, last uint64, err error) { q.failures.add(first, last, err) }
