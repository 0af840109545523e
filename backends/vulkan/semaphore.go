//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var liveSemaphores = backendkit.NewLiveCounter("vulkan.Semaphore")

// semaphore is a timeline semaphore of Vulkan.
type semaphore struct {
	device     *device
	opened     backendkit.OpenItem
	timeline   uint64
	exportable bool
	shared     bool // exportable, or imported
	borrowed   bool // the VkSemaphore is another library's

	mu       sync.Mutex
	idle     sync.Cond // signalled when users becomes 0
	closed   bool
	users    int    // calls in the driver, and items of queues
	promised uint64 // the largest value that Signal was called with
	pending  uint64 // the largest value that submitted work will set

	latest        *event // of the work that sets pending; nil if there is none
	latestPrivate bool   // that work is in a private queue
}

var _ core.Semaphore = (*semaphore)(nil)

// NewSemaphore makes a timeline semaphore, for export as HandleOpaqueFD where the driver exports timelines, or a binary
// semaphore for export as HandleBinaryFD where it exports only those.
func (d *device) NewSemaphore(ctx context.Context, t core.HandleType) (core.Semaphore, error) {
	const call = "NewSemaphore"
	if err := d.Gate.Enter(ctx); err != nil {
		return nil, err
	}
	if t != 0 && t != d.semaphoreType {
		return nil, errorf(core.ErrNotSupported, call, "the driver does not export semaphores as %v", t)
	}
	if t == core.HandleBinaryFD {
		return d.newBinary(call, -1, nil)
	}
	return d.newSemaphore(call, t != 0, -1)
}

// newSemaphore makes a semaphore. Unless fd is -1, it imports the payload of the descriptor fd and owns it.
func (d *device) newSemaphore(call string, exportable bool, fd int) (core.Semaphore, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return nil, err
	}
	timeline, err := d.driver.NewTimeline(exportable)
	if err != nil {
		return nil, d.noteLoss(err)
	}
	if fd >= 0 {
		if err := d.driver.ImportTimeline(timeline, fd); err != nil {
			d.driver.DestroyTimeline(timeline)
			return nil, d.noteLoss(err)
		}
	}
	return d.openSemaphore(&semaphore{timeline: timeline, exportable: exportable, shared: exportable || fd >= 0}), nil
}

// openSemaphore counts a semaphore of the device. d.Mu is held.
func (d *device) openSemaphore(s *semaphore) *semaphore {
	s.device, s.opened = d, d.Opened("semaphore")
	s.idle.L = &s.mu
	liveSemaphores.Add(1)
	return s
}

// importTimeline is [ImportTimeline].
func importTimeline(to core.Device, timeline uint64) (core.Semaphore, error) {
	const call = "ImportTimeline"
	d, err := deviceOf(call, to)
	if err != nil {
		return nil, err
	}
	if timeline == 0 {
		return nil, errorf(core.ErrInvalid, call, "the VkSemaphore is 0")
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return nil, err
	}
	return d.openSemaphore(&semaphore{timeline: timeline, shared: true, borrowed: true}), nil
}

// use counts a user, unless the semaphore is closed.
func (s *semaphore) use(call string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errorf(core.ErrClosed, call, "the semaphore was closed")
	}
	s.users++
	return nil
}

func (s *semaphore) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		s.idle.Broadcast()
	}
}

// Signal enqueues setting the value. Each value must be larger than all before, and an imported semaphore
// must not have reached it already.
func (s *semaphore) Signal(on core.Stream, value uint64) error {
	const call = "Signal"
	q, err := shell.StreamOf[*queue](&s.device.Device, call, on)
	if err != nil {
		return err
	}
	if err := s.use(call); err != nil {
		return err
	}
	before, err := s.promise(value)
	if err != nil {
		s.drop()
		return err
	}
	if err := q.lock(call); err != nil {
		s.takeBack(value, before)
		s.drop()
		return err
	}
	defer q.mu.Unlock()
	i := item{
		submit: func(i item) error { return s.submitSignal(q, i, value) },
		host: func() error {
			err := s.signalOnHost(value)
			if err != nil {
				s.takeBack(value, before)
			}
			return err
		},
		over: s.drop, // it is used until the value is set: see Close
	}
	if s.borrowed && q.running { // the VkQueue may wait for the value when the turn of this comes
		i.submit = nil
	}
	err = q.add(i)
	if err != nil {
		s.takeBack(value, before)
		s.drop()
	}
	return err
}

// submitSignal submits setting the value. If another stream has submitted the signal before, this stream waits for
// that, since values must be set in order. q.mu is held.
func (s *semaphore) submitSignal(q *queue, i item, value uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock() // values are submitted one after the other
	if err := s.follows(value); err != nil {
		return err
	}
	if l := s.latest; l != nil && l.queue != q && !l.queue.hasReached(l.number) {
		if s.latestPrivate && !q.reserve(i.number) {
			return errNoQueue
		}
		i.before = append(slices.Clip(i.before), l)
	}
	at := q.place(i)
	at.First = driver.Point{Timeline: s.timeline, Value: value}
	if err := q.send(at); err != nil {
		return err
	}
	s.pending, s.latest, s.latestPrivate = value, &event{q, i.number, i.number}, at.Queue != 0
	return nil
}

// signalOnHost sets the value, when the work before is done, and so is the signal before.
func (s *semaphore) signalOnHost(value uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.latest; l != nil && !l.queue.hasReached(l.number); l = s.latest {
		s.mu.Unlock()
		err := s.device.await(l.point())
		s.mu.Lock()
		if err != nil {
			return err
		}
	}
	if err := s.follows(value); err != nil {
		return err
	}
	if err := s.device.driver.Signal(s.timeline, value); err != nil {
		return s.device.noteLoss(err)
	}
	s.pending = value
	return nil
}

// follows fails if a value is not larger than what other streams have signalled since the call of Signal. s.mu is
// held.
func (s *semaphore) follows(value uint64) error {
	if value <= s.pending {
		return errorf(core.ErrInvalid, "Signal", "value %d is not larger than %d, which another stream has signalled meanwhile", value, s.pending)
	}
	return nil
}

// promise records that value will be set, if it is larger than all before. It returns the largest value
// before.
func (s *semaphore) promise(value uint64) (before uint64, err error) {
	now, err := s.device.driver.Counter(s.timeline)
	if err != nil {
		return 0, s.device.noteLoss(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if least := max(now, s.promised); value <= least {
		return 0, errorf(core.ErrInvalid, "Signal", "value %d is not larger than %d, which was signalled before", value, least)
	}
	before, s.promised = s.promised, value
	return before, nil
}

// takeBack withdraws the promise of a value that could not be enqueued, unless a larger one was promised
// since.
func (s *semaphore) takeBack(value, before uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.promised == value {
		s.promised = before
	}
}

// WaitOn makes later work wait on the device, in a VkQueue in which no other stream has work. If none is free, or if
// the driver need not take so large a value, later work is held on the host until the value is reached.
func (s *semaphore) WaitOn(on core.Stream, value uint64) error {
	const call = "WaitOn"
	q, err := shell.StreamOf[*queue](&s.device.Device, call, on)
	if err != nil {
		return err
	}
	if err := s.use(call); err != nil {
		return err
	}
	now, err := s.device.driver.Counter(s.timeline)
	if err != nil || now >= value {
		s.drop()
		return s.device.noteLoss(err)
	}
	if err := q.lock(call); err != nil {
		s.drop()
		return err
	}
	defer q.mu.Unlock()
	i := item{host: func() error { return s.await(context.Background(), value) }, over: s.drop}
	if value-now <= farthest && q.reserve(q.next+1) {
		i.submit = func(i item) error { return s.submitWait(q, i, value) }
	}
	if err = q.add(i); err != nil {
		s.drop()
	}
	return err
}

// farthest is how much larger than the semaphore's a value may be that a driver waits for: every
// maxTimelineSemaphoreValueDifference is at least as large.
const farthest = math.MaxInt32

// submitWait submits a wait to the private queue that is reserved for the stream. q.mu is held.
func (s *semaphore) submitWait(q *queue, i item, value uint64) error {
	at, wait := q.place(i), driver.Point{Timeline: s.timeline, Value: value}
	at.Waits = append(at.Waits, wait)
	if err := q.send(at); err != nil {
		return err
	}
	q.noteWait(queuedWait{event{q, i.number, i.number}, wait, s.shared})
	if s.device.lostError() != nil { // drain may not have seen the wait
		s.device.endPrivateWaits()
	}
	return nil
}

// await waits until the value is reached, ctx ends, the semaphore is closed or the device is lost. The caller
// has called use.
func (s *semaphore) await(ctx context.Context, value uint64) error {
	for {
		reached, err := s.device.driver.Wait(s.timeline, value, patience)
		_ = s.device.noteLoss(err)
		if reached {
			s.device.hostWork.See()
			return nil
		}
		if err != nil { // for want of memory, say: tried again
			time.Sleep(time.Millisecond)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.device.lostError(); err != nil {
			return err
		}
		s.mu.Lock()
		closed := s.closed && s.promised < value
		s.mu.Unlock()
		if closed {
			return closedBefore(value)
		}
	}
}

func (s *semaphore) Value() (uint64, error) {
	if err := s.use("Value"); err != nil {
		return 0, err
	}
	defer s.drop()
	v, err := s.device.driver.Counter(s.timeline)
	return v, s.device.noteLoss(err)
}

func (s *semaphore) Wait(ctx context.Context, value uint64) error {
	if err := s.use("Wait"); err != nil {
		return err
	}
	defer s.drop()
	return s.await(ctx, value)
}

// Close ends waits for values that will not be set, and waits until no work on the device uses the semaphore. Another
// API can still set the values of a semaphore that is shared; waits on the device for these go on, and the semaphore
// is destroyed when they are over.
func (s *semaphore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for s.users > 0 {
		s.idle.Wait()
	}
	if s.pending > 0 {
		_ = s.device.await(driver.Point{Timeline: s.timeline, Value: s.pending})
	}
	waits := s.device.private.waitsFor(s.timeline)
	if len(waits) > 0 && !s.shared {
		s.endWaits(waits)
		for _, w := range waits {
			_ = s.device.await(w.item.point())
		}
	}
	s.destroyAfter(waits)
	liveSemaphores.Add(-1)
	s.opened.Close()
	return nil
}

// endWaits sets the values that work on the device waits for and nobody can set any more. s.mu is held.
func (s *semaphore) endWaits(waits []queuedWait) {
	var last uint64
	for _, w := range waits {
		if value := w.semaphore.Value; value > s.pending {
			w.item.queue.failures.add(w.item.number, w.item.number, closedBefore(value))
			last = max(last, value)
		}
	}
	for last > 0 && s.device.lostError() == nil {
		if s.device.noteLoss(s.device.driver.Signal(s.timeline, last)) == nil {
			return
		}
		time.Sleep(time.Millisecond) // for want of memory, say: tried again
	}
}

// destroyAfter destroys the semaphore when waits on the device are over, and the last signal. s.mu is held.
func (s *semaphore) destroyAfter(waits []queuedWait) {
	d := s.device
	var pending []core.Event
	if l := s.latest; l != nil && !l.queue.hasReached(l.number) { // the device is lost
		pending = append(pending, l)
	}
	for _, w := range waits {
		if !w.over() {
			pending = append(pending, &w.item)
		}
	}
	if len(pending) == 0 {
		s.destroy()
		return
	}
	d.Reaper.After(pending, func() {
		if d.lostError() != nil {
			d.drain() // the waits may be in the VkQueue still
		}
		s.destroy()
	})
}

// destroy destroys the VkSemaphore, if it is the device's.
func (s *semaphore) destroy() {
	if !s.borrowed {
		s.device.driver.DestroyTimeline(s.timeline)
	}
}

func closedBefore(value uint64) error {
	return errorf(core.ErrClosed, "Wait", "the semaphore was closed before it reached %d", value)
}

// SemaphoreExportTypes are opaque descriptors of timelines, or else of binary semaphores, where the driver shares them.
func (d *device) SemaphoreExportTypes() []core.HandleType {
	if !d.Info.Capabilities.Has(core.CapExportSemaphores) {
		return nil
	}
	return []core.HandleType{d.semaphoreType}
}

func (d *device) ExportSemaphore(c core.Semaphore, t core.HandleType) (core.ExternalSemaphore, error) {
	const call = "ExportSemaphore"
	if err := d.Info.Require(core.CapExportSemaphores, call); err != nil {
		return core.ExternalSemaphore{}, err
	}
	if t != d.semaphoreType {
		return core.ExternalSemaphore{}, errorf(core.ErrNotSupported, call, "a semaphore can be exported as %v, not as %v", d.semaphoreType, t)
	}
	if b, ok := c.(*binarySemaphore); ok && b.device == d && b.exportable {
		h, err := b.openExport(call)
		return core.ExternalSemaphore{Handle: h, DeviceUUID: d.Info.UUID, DriverUUID: d.Info.DriverUUID}, err
	}
	s, ok := c.(*semaphore)
	if !ok || s.device != d || !s.exportable {
		return core.ExternalSemaphore{}, errorf(core.ErrInvalid, call, "the semaphore was not made for %v by NewSemaphore of this device", t)
	}
	if err := s.use(call); err != nil {
		return core.ExternalSemaphore{}, err
	}
	defer s.drop()
	fd, err := d.driver.ExportTimeline(s.timeline)
	if err != nil {
		return core.ExternalSemaphore{}, d.noteLoss(err)
	}
	h, err := external.Export(t, fd)
	return core.ExternalSemaphore{Handle: h, DeviceUUID: d.Info.UUID, DriverUUID: d.Info.DriverUUID}, err
}

// SemaphoreImportTypes are the types that can be exported.
func (d *device) SemaphoreImportTypes() []core.HandleType { return d.SemaphoreExportTypes() }

func (d *device) ImportSemaphore(ctx context.Context, e core.ExternalSemaphore) (core.Semaphore, error) {
	const call = "ImportSemaphore"
	if err := d.EnterWith(ctx, core.CapImportSemaphores, call); err != nil {
		return nil, err
	}
	by := d.importer()
	if err := by.CheckSemaphore(e); err != nil {
		return nil, err
	}
	if d.semaphoreType == core.HandleBinaryFD {
		return d.importBinary(by, e.Handle)
	}
	var s core.Semaphore
	err := by.Give(call, e.Handle, func(fd int) (taken bool, err error) {
		s, err = d.newSemaphore(call, false, fd)
		return err == nil, err
	})
	return s, err
}
