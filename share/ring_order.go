package share

import (
	"context"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// This file is about frames that are sent while the work that writes them is unfinished, at the publisher.

// frameWork is the unfinished work on a slot that was sent. The slot is not loaned before it has ended.
type frameWork struct {
	slot  int
	frame uint64
	write core.Event

	// The publisher's mutex guards these, once the frame is sent.
	turns   []*turn   // for the connections whose device can wait, one for each; of ended work, those that miss their value
	readers []*reader // that are told when the work has ended
	ended   bool
	result  result
}

// toldWork is what a subscriber knows of the work on a slot, or is to be told. The publisher's mutex guards it.
type toldWork struct {
	work *frameWork
	told workState
}

// workState is how far the work on a frame is, as far as a subscriber was told.
type workState uint8

const (
	workUntold workState = iota
	workUnfinished
	workEnded
)

// sendUnfinished is Send for a tensor whose last write is unfinished.
func (p *Publisher) sendUnfinished(ctx context.Context, t *core.Tensor, e core.Event) (RingReport, error) {
	p.mu.Lock()
	i := p.loaned(t)
	if p.closed || i < 0 || p.count == maxFrame {
		err := p.refuses(i)
		p.mu.Unlock()
		return RingReport{}, err
	}
	list, old := p.listeners()
	p.mu.Unlock()
	w := &frameWork{write: e}
	reasons := make(map[*Conn]string)
	if !old { // the lock is not held: drivers take their time
		for _, r := range list {
			w.order(ctx, r.conn, t.Device(), reasons)
		}
	}
	p.mu.Lock()
	i = p.loaned(t)
	list, old = p.listeners()
	if p.closed || i < 0 || p.count == maxFrame || old {
		err := p.refuses(i)
		late := RingReport{Wait: stream.HostWait, Readers: w.describe(list, reasons)}
		p.mu.Unlock()
		for _, x := range w.turns {
			go x.conn.settle(x, 0)
		}
		if !old {
			return RingReport{}, err
		}
		return p.sendLate(ctx, t, late)
	}
	p.publish(i, i|unfinished)
	s := &p.slots[i]
	s.work, w.slot, w.frame, w.readers = w, i, p.count, list
	s.retired++
	p.working++
	for _, r := range list {
		r.owe(w)
	}
	report := RingReport{Sequence: p.count, Wait: stream.SemaphoreWait, Readers: w.describe(list, reasons)}
	p.idle.Go(func() { p.settle(w) })
	p.mu.Unlock()
	tellAll(list)
	return report, nil
}

// sendLate waits for the last write of a tensor, and sends it.
func (p *Publisher) sendLate(ctx context.Context, t *core.Tensor, r RingReport) (RingReport, error) {
	if err := t.WaitReady(ctx); err != nil {
		return RingReport{Wait: r.Wait}, err
	}
	sent, err := p.Send(ctx, t)
	if err == nil {
		r.Sequence = sent.Sequence
	} else {
		r.Readers = nil
	}
	return r, err
}

// listeners returns the subscribers that get the next frame, and whether one of them takes only frames whose work
// has ended. p.mu is held.
func (p *Publisher) listeners() (list []*reader, old bool) {
	for _, r := range p.readers {
		if !r.left {
			list = append(list, r)
			old = old || !r.mayWait
		}
	}
	return list, old
}

// describe says how each subscriber gets the frame. p.mu is held, since it guards the subscribers.
func (w *frameWork) describe(list []*reader, reasons map[*Conn]string) (readers []Reader) {
	old := slices.ContainsFunc(list, func(r *reader) bool { return !r.mayWait })
	for _, r := range list {
		x := r.info
		switch {
		case old && !r.mayWait:
			x.Refused = "the peer's version of dlx takes only frames whose work has ended"
		case old:
		case w.turn(r.conn) != nil:
			x.Wait = stream.SemaphoreWait
		default:
			x.Wait, x.Refused = stream.HostWait, reasons[r.conn]
			if x.Refused == "" {
				x.Refused = "it has subscribed while Send looked for semaphores"
			}
		}
		readers = append(readers, x)
	}
	return readers
}

// turn returns the use of a semaphore of a connection; nil if there is none.
func (w *frameWork) turn(c *Conn) *turn {
	for _, x := range w.turns {
		if x.conn == c {
			return x
		}
	}
	return nil
}

// order makes a semaphore of a connection follow the work, unless that was tried before. If that is not possible, it notes
// why: the subscriber then waits for the message that the work has ended.
func (w *frameWork) order(ctx context.Context, c *Conn, d core.Device, reasons map[*Conn]string) {
	if _, tried := reasons[c]; tried {
		return
	}
	reasons[c] = ""
	x, err := c.orderFrame(ctx, d, w.write)
	if err != nil {
		reasons[c] = err.Error()
		return
	}
	w.turns = append(w.turns, x)
}

// orderFrame makes a semaphore that the peer has follow e.
func (c *Conn) orderFrame(ctx context.Context, d core.Device, e core.Event) (*turn, error) {
	if d == nil {
		return nil, core.Errorf(core.ErrNotSupported, "", "", "no opened device has the slots")
	}
	l, err := c.lane(ctx, d)
	if err != nil {
		return nil, err
	}
	if l.binary {
		err = core.Errorf(core.ErrNotSupported, "", "", "a binary semaphore serves one wait, and a subscriber may wait for a frame or not")
	} else {
		err = c.passLaneSoon(ctx, l)
	}
	if err != nil {
		c.giveBackLane(l, true)
		return nil, err
	}
	return c.follow(l, e)
}

// passTime bounds how long a frame waits for other messages to a peer, before its semaphore is passed.
const passTime = 100 * time.Millisecond

// passLaneSoon is passLane, but does not wait for a peer that does not read. The caller has the lane for itself.
func (c *Conn) passLaneSoon(ctx context.Context, l *lane) error {
	if l.passed {
		return nil
	}
	data, fds, err := l.external.MarshalWithFDs()
	if err != nil {
		return err
	}
	c.mu.Lock()
	stuck := c.stuck
	c.mu.Unlock()
	limit := passTime
	if stuck { // it has not read before: only one frame waits for that
		limit = 0
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	written := false
	if err = c.lock(limited, c.writing); err == nil {
		c.begin(kindOrder, len(fds))
		c.scratch = appendObject(c.scratch, l.id, objectSemaphore, data)
		finish(c.scratch, c.sequence)
		if written, err = c.socket.try(c.scratch, fds[0]); written {
			c.sequence++
		}
		<-c.writing
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck = !written && (c.stuck || ctx.Err() == nil) // the end of ctx says nothing about the peer
	switch {
	case c.err != nil:
		return c.err
	case !written && (err == nil || ctx.Err() == nil && isOf(limited, err)):
		return core.Errorf(core.ErrNotSupported, "", "", "the peer does not read its messages now, so that it cannot be given a semaphore")
	case !written:
		return core.Errorf(core.ErrNotSupported, "", "", "the peer cannot be given a semaphore: %v", err)
	}
	l.passed = true
	_ = l.external.Close() // the peer has its own descriptor
	return err
}

// errUnfinished is the result of work that takes longer than Close waits.
var errUnfinished = core.Errorf(core.ErrClosed, "share", "Close", "the publisher was closed before the work on the frame was done")

// settle waits for the work on a frame, and has the subscribers told how it ended. It is one of p.idle.
func (p *Publisher) settle(w *frameWork) {
	_ = w.write.Wait(p.life)
	done, failed := w.write.Done() // Wait may return the error of p.life although the work has ended
	if !done {
		failed = errUnfinished
	}
	var missing []bool
	turns := w.turns // which nobody else changes
	for i, x := range turns {
		missing = append(missing, x.isMissing(x.signalled.Wait(p.life)))
		if !missing[i] {
			x.conn.endTurn(x, false) // before Loan and Send go on, so that the next frame finds the lane
		}
	}
	if failed != nil {
		p.spoil(w.slot) // before the slot counts as idle
	}
	p.mu.Lock()
	w.turns = nil // they would keep connections that end before the slot is loaned again
	for i, x := range turns {
		if x.missing = missing[i]; x.missing {
			w.turns = append(w.turns, x)
		}
	}
	w.ended, w.result = true, resultOf(failed)
	p.slots[w.slot].retired--
	p.working--
	list := w.readers
	w.readers = nil
	for _, r := range list {
		r.owe(w)
	}
	p.stir()
	p.mu.Unlock()
	tellAll(list)
	for i, x := range turns {
		if missing[i] { // the semaphore is forgotten after what the peer is told of the frame
			x.conn.endTurn(x, true)
		}
	}
}

// spoil takes the tensor of a slot out, whose work has failed: it keeps the error, which is none of the next frame. The
// slot gets another tensor when the views of this one are closed, and all work on it is done.
func (p *Publisher) spoil(i int) {
	p.mu.Lock()
	s := &p.slots[i]
	t := s.tensor
	if t != nil { // else the publisher is closed
		s.spoiled = s.owner
		s.tensor, s.buffer, s.owner = nil, nil, nil
	}
	p.mu.Unlock()
	_ = t.Close()
}

// endTurn gives back the lane of a frame whose work has ended.
func (c *Conn) endTurn(x *turn, missing bool) {
	l := x.lane
	c.mu.Lock()
	if missing && c.err == nil {
		c.forgotten = append(c.forgotten, l.id)
	}
	keep := c.idle(l, !missing)
	c.mu.Unlock()
	if !keep {
		c.awaken()
		go c.drop(l) // it may wait for the work
	}
}

// drain waits for a moment for the work on frames that were sent.
func (p *Publisher) drain() {
	p.mu.Lock()
	working := p.working > 0 && !p.closed
	p.mu.Unlock()
	if !working {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.patience)
	defer cancel()
	_ = p.wait(ctx, "Close", func() bool { return p.working == 0 })
}

// owe notes that the subscriber is to be told of work. p.mu is held.
func (r *reader) owe(w *frameWork) {
	if r.works == nil {
		r.works = make([]toldWork, len(r.publisher.slots))
	}
	if x := &r.works[w.slot]; x.work != w {
		*x = toldWork{work: w}
	}
	if !slices.Contains(r.due, w.slot) {
		r.due = append(r.due, w.slot)
	}
}

// isWaiting reports whether the subscriber waits for work.
func (r *reader) isWaiting() bool {
	r.publisher.mu.Lock()
	defer r.publisher.mu.Unlock()
	return slices.ContainsFunc(r.works, func(x toldWork) bool { return x.work != nil && !x.work.ended })
}

// dueWork is a message to a subscriber.
type dueWork struct {
	workMessage
	reader *reader
}

// next returns what the subscriber is to be told next: nil if there is nothing. It is computed when it is written, so
// that work that has ended meanwhile takes one message, and a peer that does not read keeps no list of messages.
// The connection's mutex is held.
func (r *reader) next() *dueWork {
	r.publisher.mu.Lock()
	defer r.publisher.mu.Unlock()
	for len(r.due) > 0 {
		x := &r.works[r.due[0]]
		w := x.work
		m := &dueWork{workMessage{subscription: r.id, slot: w.slot, frame: w.frame, ended: w.ended}, r}
		t := w.turn(r.conn)
		switch {
		case x.told == workEnded, x.told == workUnfinished && !w.ended:
			r.due = slices.Delete(r.due, 0, 1)
			continue
		case w.ended:
			m.result = w.result
			m.result.missing = t != nil && t.missing
		case t != nil:
			m.semaphore, m.value = t.lane.id, t.value
		}
		return m
	}
	return nil
}

// told notes that the message was written.
func (m *dueWork) told() {
	p := m.reader.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := &m.reader.works[m.slot]; x.work.frame == m.frame { // else there is a newer frame
		x.told = workUnfinished
		if m.ended {
			x.told = workEnded
		}
	}
}

// tellAll tells subscribers what they are to be told. It does not wait for them.
func tellAll(list []*reader) {
	for _, r := range list {
		c := r.conn
		c.mu.Lock()
		if c.err == nil && !slices.Contains(c.telling, r) {
			c.telling = append(c.telling, r)
		}
		c.notify() // Close may wait for the end of the work
		c.mu.Unlock()
		c.tell()
	}
}

// nextWork returns what the peer is to be told of frames: nil if there is nothing.
func (c *Conn) nextWork() *dueWork {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextWorkLocked()
}

// nextWorkLocked is nextWork. c.mu is held.
func (c *Conn) nextWorkLocked() *dueWork {
	for len(c.telling) > 0 {
		if m := c.telling[0].next(); m != nil {
			return m
		}
		c.telling = slices.Delete(c.telling, 0, 1)
	}
	return nil
}
