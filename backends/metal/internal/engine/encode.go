package engine

import (
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
)

// encoding is a command buffer while it is encoded, in an autorelease pool.
type encoding struct {
	device        *device
	commands      driver.ID
	blit, compute driver.ID // the open encoder: one of them, or none
	used          []*timeline
}

// blits opens an encoder for copies, unless it is open.
func (e *encoding) blits() (driver.ID, error) {
	if e.blit == 0 {
		e.close()
		if e.blit = e.device.driver.BlitEncoder(e.commands); e.blit == 0 {
			return 0, noObject("blitCommandEncoder")
		}
	}
	return e.blit, nil
}

// computes opens an encoder for kernels, unless it is open.
func (e *encoding) computes() (driver.ID, error) {
	if e.compute == 0 {
		e.close()
		if e.compute = e.device.driver.ComputeEncoder(e.commands); e.compute == 0 {
			return 0, noObject("computeCommandEncoder")
		}
	}
	return e.compute, nil
}

// close ends the open encoder.
func (e *encoding) close() {
	if open := e.blit | e.compute; open != 0 {
		e.device.driver.EndEncoding(open)
	}
	e.blit, e.compute = 0, 0
}

// wait makes what is encoded later wait for a value, whose signal is committed.
func (e *encoding) wait(t *timeline, value uint64) {
	e.close()
	e.device.driver.EncodeWait(e.commands, t.id, value)
	t.keep()
	e.used = append(e.used, t)
}

// signal sets a value when what was encoded before is done.
func (e *encoding) signal(t *timeline, value uint64) {
	e.close()
	e.device.driver.EncodeSignal(e.commands, t.id, value)
	t.keep()
	e.used = append(e.used, t)
}

// drop lets go of the shared events.
func (e *encoding) drop() {
	for _, t := range e.used {
		t.drop()
	}
}

// encoder is commands that one command buffer has.
type encoder interface{ encode(e *encoding) error }

// submit encodes and commits the command buffer of an item. If it fails, nothing is committed. q.Mu is held.
func (q *queue) submit(i item, x encoder) (err error) {
	d := q.device
	d.driver.Pool(func() {
		e := &encoding{device: d}
		if e.commands = d.driver.CommandBuffer(q.raw); e.commands == 0 {
			err = noObject("commandBuffer")
			return
		}
		if !q.Has(i.Number - 1) {
			e.wait(q.timeline, i.Number-1)
		}
		for _, p := range i.Before {
			switch p := p.(type) {
			case point:
				e.wait(p.timeline, p.value)
			case *event:
				if !p.Over() {
					e.wait(p.Queue().timeline, p.Number())
				}
			}
		}
		err = x.encode(e)
		e.close() // even of a command buffer that is not committed
		if err != nil {
			e.drop()
			return
		}
		e.signal(q.timeline, i.Number)
		d.driver.Commit(e.commands, func(failed *driver.Error) {
			q.End(i, d.NoteLoss(commandError(failed)))
			e.drop()
		})
	})
	return err
}
