package share

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// openSemaphore is a semaphore of the peer. A device opens it when the first tensor that waits
// for it is received there.
type openSemaphore struct {
	external core.ExternalSemaphore
	patience time.Duration // of the connection
	tensors  int           // and frames that wait for it; guarded by the connection's mutex

	// busy holds one element while a call uses what is below.
	busy      chan struct{}
	closed    bool
	device    core.Device    // where it was opened; nil before
	semaphore core.Semaphore // of device
	stream    core.Stream    // of device, which waits
	last      core.Event     // behind the latest wait
	value     uint64         // of the latest wait
}

// moreSemaphores is how many semaphores the peer may have passed beside those of unreleased
// tensors.
const moreSemaphores = 64

// takeOrder handles a semaphore or a result. It reports whether it owns the descriptors.
func (c *Conn) takeOrder(payload []byte, fds []int) (owned bool, err error) {
	if isResult(payload) {
		if len(fds) > 0 {
			return false, violation("a descriptor came with a message about the work of a tensor")
		}
		return false, c.takeResult(payload)
	}
	id, what, data, err := readObject(payload)
	if err != nil {
		return false, err
	}
	if what != objectSemaphore {
		return false, violation("object %d is of kind %d, which orders nothing", id, what)
	}
	x, err := core.UnmarshalExternalSemaphore(data, fds)
	if err != nil {
		return false, core.Errorf(core.ErrInvalid, "share", "message", "semaphore %d: %v", id, err)
	}
	if err := c.addSemaphore(id, x); err != nil {
		_ = x.Close()
		return true, err
	}
	return true, nil
}

// addSemaphore checks a semaphore and keeps it. On failure the caller closes it.
func (c *Conn) addSemaphore(id uint32, x core.ExternalSemaphore) error {
	t := x.Handle.Type()
	known := false
	for i := range c.self {
		known = known || slices.Contains(c.self[i].SemaphoreImports, t)
	}
	if !known || !t.IsFD() {
		return violation("semaphore %d has a handle of type %v, which this process did not say that it opens", id, t)
	}
	if err := c.checkSemaphore(x); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch most := c.options.Limits.Tensors + moreSemaphores; {
	case c.opened[id] != nil || c.semaphores[id] != nil:
		return violation("semaphore %d has the number of another open object", id)
	case len(c.semaphores) >= most:
		return core.Errorf(core.ErrOutOfMemory, "share", "message", "semaphore %d came beside %d others, which is the limit", id, most)
	}
	if err := c.quota.take(usage{descriptors: 1}); err != nil {
		return err
	}
	c.semaphores[id] = &openSemaphore{external: x, patience: c.options.patience, busy: make(chan struct{}, 1)}
	return nil
}

// takeResult handles that the work of a tensor has ended.
func (c *Conn) takeResult(payload []byte) error {
	r, err := readResult(payload)
	if err != nil {
		return err
	}
	c.mu.Lock()
	x := c.held[r.tensor]
	if x == nil || x.order == nil || x.told {
		c.mu.Unlock()
		return violation("the work of tensor %d has ended, and nothing waits for it", r.tensor)
	}
	x.told = true
	ended := x.ended
	c.mu.Unlock()
	x.result.Complete(r.err())
	go x.order.release(x.message.value, !r.missing) // it waits for the device
	if ended {
		c.end(x)
	}
	return nil
}

// err returns the error of the work.
func (r *result) err() error {
	sentinel := core.ErrInvalid
	switch r.status {
	case resultOK:
		return nil
	case resultLost:
		sentinel = core.ErrDeviceLost
	case resultMemory:
		sentinel = core.ErrOutOfMemory
	}
	return core.Errorf(sentinel, "share", "result", "the peer's work on the tensor failed: %q", r.text)
}

// order returns the event that the elements of x are there, for a tensor on device. It is nil if
// they are.
func (c *Conn) order(ctx context.Context, x *heldTensor, device core.Device, r *Report) (core.Event, error) {
	if x.order == nil {
		return nil, nil
	}
	if done, err := x.result.Done(); done {
		if err == nil {
			return nil, nil
		}
		return x.result, nil
	}
	bound, stop := c.bound(ctx)
	defer stop()
	e, err := x.order.arrival(bound, c, device, x.message.value, x.result)
	if err != nil {
		if isOf(ctx, err) {
			return nil, err
		}
		r.refuse(exchange.Map, err, "wait on %v for the peer's work", device.ID())
		r.Wait = stream.HostWait
		return x.result, nil
	}
	r.Wait = stream.SemaphoreWait
	return e, nil
}

// arrival makes the device wait for a value of the semaphore, and returns the event that this has happened, and that the
// peer has told the result.
func (s *openSemaphore) arrival(ctx context.Context, c *Conn, device core.Device, value uint64, result *stream.Event) (core.Event, error) {
	waited, err := s.wait(ctx, c, device, value)
	if err != nil {
		return nil, err
	}
	if told, _ := result.Done(); told { // meanwhile: nobody else may end the wait
		go s.release(value, true)
	}
	return &arrival{waited, result}, nil
}

// wait makes the stream of the semaphore wait for a value, and returns an event behind that.
func (s *openSemaphore) wait(ctx context.Context, c *Conn, device core.Device, value uint64) (core.Event, error) {
	if err := c.lock(ctx, s.busy); err != nil {
		return nil, err
	}
	defer func() { <-s.busy }()
	if s.closed { // with the connection, or since the peer has ended the work of a frame, and forgotten the semaphore
		return nil, c.orEnded(core.Errorf(core.ErrClosed, "share", "Receive", "the peer has closed the semaphore"))
	}
	if err := s.open(ctx, device); err != nil {
		return nil, err
	}
	if err := s.semaphore.WaitOn(s.stream, value); err != nil {
		return nil, err
	}
	s.value, s.last = max(s.value, value), nil
	after, err := s.stream.Record()
	if err != nil { // release ends the wait
		return nil, err
	}
	s.last = after
	return after, nil
}

// open opens the semaphore on a device. The caller holds busy.
func (s *openSemaphore) open(ctx context.Context, device core.Device) error {
	if s.device != nil && s.device != device {
		return core.Errorf(core.ErrNotSupported, "", "", "the semaphore is open on %v", s.device.ID())
	}
	i, ok := core.As[core.SemaphoreImporter](device)
	if !ok {
		return core.Errorf(core.ErrNotSupported, "", "", "the device opens no semaphores")
	}
	if s.semaphore == nil {
		x, err := s.external.Duplicate()
		if err != nil {
			return err
		}
		defer x.Close()
		if s.semaphore, err = i.ImportSemaphore(ctx, x); err != nil {
			s.semaphore = nil
			return err
		}
		s.device = device
		_ = s.external.Close()
	}
	if s.stream == nil {
		own, err := device.NewStream(ctx)
		if err != nil {
			return err
		}
		s.stream = own
	}
	return nil
}

// release ends an unfinished wait for a value. If the peer says that it has signalled, or may still do so, the
// wait has a moment to end by that. A later wait, for a larger value, has a release of its own: this one must
// not signal its value.
func (s *openSemaphore) release(value uint64, signalled bool) {
	s.busy <- struct{}{}
	defer func() { <-s.busy }()
	if s.value == value {
		s.end(signalled)
	}
}

// end ends the latest wait, and those before. The caller holds busy.
func (s *openSemaphore) end(signalled bool) {
	if s.closed || s.semaphore == nil || s.value == 0 {
		return
	}
	if s.last != nil {
		if signalled {
			ctx, cancel := context.WithTimeout(context.Background(), s.patience)
			_ = s.last.Wait(ctx)
			cancel()
		}
		if done, _ := s.last.Done(); done {
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	if b, ok := s.semaphore.(core.BinarySemaphore); ok {
		_ = b.Release(ctx, s.value)
		return
	}
	if now, err := s.semaphore.Value(); err == nil && now >= s.value {
		return
	}
	own, err := s.device.NewStream(ctx) // the other one waits
	if err != nil {                     // the device is lost, and waits for nothing
		return
	}
	_ = s.semaphore.Signal(own, s.value)
	_ = own.Close()
}

// close ends an unfinished wait, as release does, and closes the semaphore.
func (s *openSemaphore) close(signalled bool) {
	s.busy <- struct{}{}
	defer func() { <-s.busy }()
	s.end(signalled)
	s.closed = true
	if s.stream != nil {
		_ = s.stream.Close()
	}
	if s.semaphore != nil {
		_ = s.semaphore.Close()
	}
	_ = s.external.Close()
}

// endArrivals ends what waits for the peer, when the connection has ended with err.
func endArrivals(held map[uint64]*heldTensor, semaphores map[uint32]*openSemaphore, err error) {
	for _, x := range held {
		if x.order != nil {
			x.result.Complete(err) // unless the peer has told
		}
	}
	alive := errors.Is(err, net.ErrClosed) // this process has ended the connection: the peer may still signal
	var all sync.WaitGroup
	for _, s := range semaphores {
		all.Go(func() { s.close(alive) })
	}
	all.Wait()
}

// arrival is the event that the elements of a received tensor are there: its device has waited for
// the peer's semaphore, and the peer has said how its work ended.
type arrival struct {
	core.Event // of the device
	told       *stream.Event
}

var _ core.Event = (*arrival)(nil)

// Unwrap returns the event for which streams of the device can wait.
func (a *arrival) Unwrap() core.Event { return a.Event }

// Done reports whether both are done, and returns their errors.
func (a *arrival) Done() (bool, error) {
	told, failed := a.told.Done()
	waited, err := a.Event.Done()
	if !told || !waited {
		return false, nil
	}
	if failed != nil {
		err = failed
	}
	return true, err
}

// Wait waits for both.
func (a *arrival) Wait(ctx context.Context) error {
	for _, e := range [...]core.Event{a.told, a.Event} {
		if err := e.Wait(ctx); err != nil {
			if done, _ := e.Done(); !done {
				return err
			}
		}
	}
	_, err := a.Done()
	return err
}
