//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// semaphore is a timeline semaphore of Vulkan.
type semaphore struct {
	cmdqueue.Semaphore
	device     *device
	timeline   uint64
	exportable bool
	shared     bool // exportable, or imported
	borrowed   bool // the VkSemaphore is another library's

	// guarded by Mu
	pending       uint64 // the largest value that submitted work will set
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
		return nil, d.NoteLoss(err)
	}
	if fd >= 0 {
		if err := d.driver.ImportTimeline(timeline, fd); err != nil {
			d.driver.DestroyTimeline(timeline)
			return nil, d.NoteLoss(err)
		}
	}
	return d.openSemaphore(&semaphore{timeline: timeline, exportable: exportable, shared: exportable || fd >= 0}), nil
}

// openSemaphore counts a semaphore of the device. d.Mu is held.
func (d *device) openSemaphore(s *semaphore) *semaphore {
	s.device = d
	s.Init(&d.Base, s, d.Opened("semaphore"))
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

// Now returns the value.
func (s *semaphore) Now() (uint64, error) { return s.device.driver.Counter(s.timeline) }

// WaitValue waits in the driver.
func (s *semaphore) WaitValue(value uint64) (bool, error) {
	reached, err := s.device.driver.Wait(s.timeline, value, cmdqueue.Patience)
	if reached {
		s.device.hostWork.See()
	}
	return reached, err
}

// Signal enqueues setting the value. Each value must be larger than all before, and an imported semaphore
// must not have reached it already.
func (s *semaphore) Signal(on core.Stream, value uint64) error {
	q, err := s.device.StreamOf("Signal", on)
	if err != nil {
		return err
	}
	return cmdqueue.AddSignal(&s.Semaphore, q.Common(), value, func(before uint64) item {
		i := item{
			Commands: &signal{s, value},
			Host: func() error {
				err := s.signalOnHost(value)
				if err != nil {
					s.TakeBack(value, before)
				}
				return err
			},
			Over: func(uint64, error) { s.Drop() }, // it is used until the value is set: see Close
		}
		if s.borrowed && q.Holding() { // the VkQueue may wait for the value when the turn of this comes
			i.Commands = nil
		}
		return i
	})
}

// signal is commands that set a value.
type signal struct {
	*semaphore
	value uint64
}

// Submit submits setting the value, and drops the semaphore.
func (x *signal) Submit(q *queue, i item) error {
	err := x.submit(q, i)
	if err == nil {
		x.Drop()
	}
	return err
}

// submit submits setting the value. If another stream has submitted the signal before, this stream waits for that, since
// values must be set in order.
func (x *signal) submit(q *queue, i item) error {
	x.Mu.Lock()
	defer x.Mu.Unlock() // values are submitted one after the other
	if err := x.Follows(x.value, x.pending); err != nil {
		return err
	}
	if l := x.latest; l != nil && l.Queue() != q && !l.Over() {
		if x.latestPrivate && !q.reserve(i.Number) {
			return cmdqueue.ErrByHost
		}
		i.Before = append(slices.Clip(i.Before), l)
	}
	at := q.place(i)
	at.First = driver.Point{Timeline: x.timeline, Value: x.value}
	if err := q.send(at); err != nil {
		return err
	}
	x.pending, x.latest, x.latestPrivate = x.value, q.At(i.Number), at.Queue != 0
	return nil
}

// signalOnHost sets the value, when the work before is done, and so is the signal before.
func (s *semaphore) signalOnHost(value uint64) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for l := s.latest; l != nil && !l.Over(); l = s.latest {
		s.Mu.Unlock()
		err := s.device.await(point(l))
		s.Mu.Lock()
		if err != nil {
			return err
		}
	}
	if err := s.Follows(value, s.pending); err != nil {
		return err
	}
	if err := s.device.driver.Signal(s.timeline, value); err != nil {
		return s.device.NoteLoss(err)
	}
	s.pending = value
	return nil
}

// WaitOn makes later work wait on the device, in a VkQueue in which no other stream has work. If none is free, or if
// the driver need not take so large a value, later work is held on the host until the value is reached.
func (s *semaphore) WaitOn(on core.Stream, value uint64) error {
	const call = "WaitOn"
	q, err := s.device.StreamOf(call, on)
	if err != nil {
		return err
	}
	if err := s.Use(call); err != nil {
		return err
	}
	now, err := s.device.driver.Counter(s.timeline)
	if err != nil || now >= value {
		s.Drop()
		return s.device.NoteLoss(err)
	}
	if err := q.Enter(call); err != nil {
		s.Drop()
		return err
	}
	defer q.Mu.Unlock()
	i := item{
		Host: func() error { return s.Await(context.Background(), value) },
		Over: func(uint64, error) { s.Drop() },
	}
	if value-now <= farthest && q.reserve(q.Newest()+1) {
		i.Commands = &wait{s, value}
	}
	if err = q.Add(i); err != nil {
		s.Drop()
	}
	return err
}

// farthest is how much larger than the semaphore's a value may be that a driver waits for: every
// maxTimelineSemaphoreValueDifference is at least as large.
const farthest = math.MaxInt32

// wait is commands that wait for a value.
type wait struct {
	*semaphore
	value uint64
}

// Submit submits a wait to the private queue that is reserved for the stream, and drops the semaphore.
func (x *wait) Submit(q *queue, i item) error {
	at, until := q.place(i), driver.Point{Timeline: x.timeline, Value: x.value}
	at.Waits = append(at.Waits, until)
	if err := q.send(at); err != nil {
		return err
	}
	q.noteWait(queuedWait{q.At(i.Number), until, x.shared})
	if x.device.LostError() != nil { // drain may not have seen the wait
		x.device.endPrivateWaits()
	}
	x.Drop()
	return nil
}

// Close ends waits for values that will not be set, and waits until no work on the device uses the semaphore. Another
// API can still set the values of a semaphore that is shared; waits on the device for these go on, and the semaphore
// is destroyed when they are over.
func (s *semaphore) Close() error { return s.CloseBy(s.finish) }

// finish ends waits on the device for values that nobody can set any more, and destroys the semaphore. s.Mu is held.
func (s *semaphore) finish() {
	if s.pending > 0 {
		_ = s.device.await(driver.Point{Timeline: s.timeline, Value: s.pending})
	}
	waits := s.device.private.waitsFor(s.timeline)
	if len(waits) > 0 && !s.shared {
		s.endWaits(waits)
		for _, w := range waits {
			_ = s.device.await(point(w.item))
		}
	}
	s.destroyAfter(waits)
}

// endWaits sets the values that work on the device waits for and nobody can set any more. s.Mu is held.
func (s *semaphore) endWaits(waits []queuedWait) {
	var last uint64
	for _, w := range waits {
		if value := w.semaphore.Value; value > s.pending {
			w.item.Queue().Fail(w.item.Number(), w.item.Number(), s.ClosedBefore(value))
			last = max(last, value)
		}
	}
	for last > 0 && s.device.LostError() == nil {
		if s.device.NoteLoss(s.device.driver.Signal(s.timeline, last)) == nil {
			return
		}
		time.Sleep(time.Millisecond) // for want of memory, say: tried again
	}
}

// destroyAfter destroys the semaphore when waits on the device are over, and the last signal. s.Mu is held.
func (s *semaphore) destroyAfter(waits []queuedWait) {
	d := s.device
	var pending []core.Event
	if l := s.latest; l != nil && !l.Over() { // the device is lost
		pending = append(pending, l)
	}
	for _, w := range waits {
		if !w.over() {
			pending = append(pending, w.item)
		}
	}
	if len(pending) == 0 {
		s.destroy()
		return
	}
	d.Reaper.After(pending, func() {
		if d.LostError() != nil {
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
	if err := s.Use(call); err != nil {
		return core.ExternalSemaphore{}, err
	}
	defer s.Drop()
	fd, err := d.driver.ExportTimeline(s.timeline)
	if err != nil {
		return core.ExternalSemaphore{}, d.NoteLoss(err)
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
