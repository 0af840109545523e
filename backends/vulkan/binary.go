//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// binarySemaphore is a binary semaphore of Vulkan, which a signal sets and a wait resets. The driver knows no values: they
// only tell the handoffs apart, and catch calls that are out of turn.
type binarySemaphore struct {
	device     *device
	opened     backendkit.OpenItem
	semaphore  uint64 // VkSemaphore
	exportable bool
	imported   *core.Handle // the payload of an import once more, for Release; nil for others

	mu        sync.Mutex
	closed    bool
	signalled uint64 // the latest value that was signalled here
	waited    uint64 // the latest value that was waited for here
	last      *event // of the latest work with the semaphore; nil if there is none
}

var _ core.BinarySemaphore = (*binarySemaphore)(nil)

// newBinary makes a binary semaphore. Unless fd is -1, it imports the payload of the descriptor fd and owns it.
// imported is a duplicate of the handle of an import, which it owns on success.
func (d *device) newBinary(call string, fd int, imported *core.Handle) (core.Semaphore, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return nil, err
	}
	h, err := d.driver.NewBinary(imported == nil)
	if err == nil && fd >= 0 {
		if err = d.driver.ImportTimeline(h, fd); err != nil {
			d.driver.DestroyTimeline(h)
		}
	}
	if err != nil {
		return nil, d.NoteLoss(err)
	}
	return &binarySemaphore{device: d, semaphore: h, exportable: imported == nil, imported: imported, opened: d.Opened("semaphore")}, nil
}

// importBinary opens the binary semaphore of a handle that by has checked.
func (d *device) importBinary(by *external.Importer, h *core.Handle) (core.Semaphore, error) {
	const call = "ImportSemaphore"
	again, err := h.Duplicate()
	if err != nil {
		return nil, by.Refused(call, err)
	}
	var s core.Semaphore
	err = by.Give(call, h, func(fd int) (taken bool, err error) {
		if err := d.checkBinary(call, by, fd); err != nil {
			return false, err
		}
		s, err = d.newBinary(call, fd, again)
		return err == nil, err
	})
	if err != nil {
		_ = again.Close()
	}
	return s, err
}

// checkBinary checks a descriptor before the driver gets it. SwiftShader maps the file and trusts what lies there; only
// the name of the file tells its semaphores from its memory.
func (d *device) checkBinary(call string, by *external.Importer, fd int) error {
	if err := by.CheckFD(call, core.HandleBinaryFD, fd, 0); err != nil {
		return err
	}
	if d.physical.DriverID != driver.SwiftShader {
		return nil
	}
	const want = "/memfd:SwiftShader.Semaphore."
	if file, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); !strings.HasPrefix(file, want) {
		return errorf(core.ErrInvalid, call, "the descriptor is %q, and no semaphore of SwiftShader", file)
	}
	return nil
}

// Signal submits the signal at once, since another device may only be given a wait for a signal that is submitted. It
// fails with ErrNotSupported if work before it must wait for the host, or for what is not submitted yet.
func (s *binarySemaphore) Signal(on core.Stream, value uint64) error {
	return s.enqueue("Signal", on, &binaryCommands{s, value, true})
}

// WaitOn makes later work wait on the device. The wait is put into the VkQueue that the stream uses, which may be the
// one of all streams: what it waits for is submitted.
func (s *binarySemaphore) WaitOn(on core.Stream, value uint64) error {
	return s.enqueue("WaitOn", on, &binaryCommands{s, value, false})
}

// enqueue submits commands. It fails with ErrNotSupported if the stream has work that is not submitted.
func (s *binarySemaphore) enqueue(call string, on core.Stream, c *binaryCommands) error {
	q, err := s.device.StreamOf(call, on)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errorf(core.ErrClosed, call, "the semaphore was closed")
	}
	if err := q.EnterSubmitted(call); err != nil {
		return err
	}
	defer q.Mu.Unlock()
	return q.Add(item{Commands: c})
}

// binaryCommands signal a binary semaphore, or wait for it.
type binaryCommands struct {
	*binarySemaphore
	value  uint64
	signal bool
}

// Submit submits the signal or the wait. The semaphore's mu is held.
func (c *binaryCommands) Submit(q *queue, i item) error {
	if l := c.last; l != nil && l.Queue() != q {
		i.Before = append(slices.Clip(i.Before), l)
	}
	at, point := q.place(i), driver.Point{Timeline: c.semaphore}
	switch least := max(c.signalled, c.waited); {
	case c.signal && c.value <= least:
		return errorf(core.ErrInvalid, "Signal", "value %d is not larger than %d, which was signalled before", c.value, least)
	case c.signal && at.Queue != 0:
		return errorf(core.ErrNotSupported, "Signal", "work before it may wait for what is not submitted yet: a binary semaphore must not be waited for then")
	case !c.signal && (c.value <= c.waited || c.value < c.signalled):
		return errorf(core.ErrInvalid, "WaitOn", "value %d was waited for before: a binary semaphore is waited for once for each signal", c.value)
	case c.signal:
		at.First = point
	default:
		at.Waits = append(at.Waits, point)
	}
	if err := q.send(at); err != nil {
		return err
	}
	c.last = q.At(i.Number)
	if c.signal {
		c.signalled = c.value
	} else {
		c.waited = c.value
	}
	return nil
}

// Value fails: nobody can ask a binary semaphore.
func (s *binarySemaphore) Value() (uint64, error) {
	return 0, errorf(core.ErrNotSupported, "Value", "a binary semaphore has no value that the host could read")
}

// Wait fails: the host cannot wait for a binary semaphore.
func (s *binarySemaphore) Wait(context.Context, uint64) error {
	return errorf(core.ErrNotSupported, "Wait", "the host cannot wait for a binary semaphore: wait for an event of the stream")
}

// Release signals from a VkDevice of its own, since all VkQueues of this one may wait.
func (s *binarySemaphore) Release(ctx context.Context, value uint64) error {
	const call = "Release"
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errorf(core.ErrClosed, call, "the semaphore was closed")
	case value != s.waited:
		return errorf(core.ErrInvalid, call, "value %d is not waited for; the latest is %d", value, s.waited)
	case s.last == nil || s.last.Over():
		return nil
	}
	own, err := s.payload()
	if err != nil {
		return err
	}
	defer own.Close()
	v, err := driver.NewDevice(s.device.physical)
	if err != nil {
		return err
	}
	defer v.Close()
	h, err := v.NewBinary(false)
	if err != nil {
		return err
	}
	defer v.DestroyTimeline(h)
	done, err := v.NewTimeline(false)
	if err != nil {
		return err
	}
	defer v.DestroyTimeline(done)
	err = s.device.importer().Give(call, own, func(fd int) (taken bool, err error) {
		err = v.ImportTimeline(h, fd)
		return err == nil, err
	})
	if err != nil {
		return err
	}
	if err := v.Submit(driver.Submission{First: driver.Point{Timeline: h}, Signal: driver.Point{Timeline: done, Value: 1}}); err != nil {
		return err
	}
	_ = v.WaitIdle() // it waits for nothing
	return ctx.Err()
}

// payload returns one more handle of the semaphore, which the caller closes.
func (s *binarySemaphore) payload() (*core.Handle, error) {
	if s.exportable {
		return s.export()
	}
	return s.imported.Duplicate()
}

// openExport is export, unless the semaphore was closed.
func (s *binarySemaphore) openExport(call string) (*core.Handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errorf(core.ErrClosed, call, "the semaphore was closed")
	}
	return s.export()
}

func (s *binarySemaphore) export() (*core.Handle, error) {
	fd, err := s.device.driver.ExportTimeline(s.semaphore)
	if err != nil {
		return nil, s.device.NoteLoss(err)
	}
	return external.Export(core.HandleBinaryFD, fd)
}

// Close destroys the semaphore when the work that uses it is done, for which it does not wait.
func (s *binarySemaphore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	d, h := s.device, s.semaphore
	switch l := s.last; {
	case l == nil || l.Over():
		d.driver.DestroyTimeline(h)
	default:
		d.Reaper.After([]core.Event{l}, func() {
			if d.LostError() != nil {
				d.drain()
			}
			d.driver.DestroyTimeline(h)
		})
	}
	_ = s.imported.Close()
	s.opened.Close()
	return nil
}
