package share

import (
	"context"
	"errors"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// parcel is a tensor on its way.
type parcel struct {
	report  Report
	source  *core.Tensor
	copied  *core.Tensor         // of source, in memory that can be shared; nil if source is sent
	root    *core.Buffer         // the memory; the parcel holds a reference
	memory  *core.ExternalMemory // what is passed; nil if the peer has the memory
	sealed  bool                 // memory can only be read
	message tensorMessage
	dims    [16]int64 // shape and strides of the message, if they fit
	turn    *turn     // of the semaphore that the peer waits for; nil if the elements are there
	sent    bool      // the peer has the message
}

// parcels are parcels that nobody uses.
var parcels = sync.Pool{New: func() any { return new(parcel) }}

// newParcel holds the memory of a tensor.
func newParcel(t *core.Tensor) (*parcel, error) {
	p := parcels.Get().(*parcel)
	p.source = t
	if err := p.hold(t); err != nil {
		return nil, err
	}
	return p, nil
}

// hold makes t the tensor that is sent, on the memory that it was opened from, if it was.
func (p *parcel) hold(t *core.Tensor) error {
	b, err := t.Buffer()
	if err != nil {
		return err
	}
	root := b
	if o := b.Origin(); privateCore.OriginOffset(b) == 0 && o.Memory().Size == b.Memory().Size {
		root = o
	}
	if err := root.Retain(); err != nil {
		return err
	}
	if p.root != nil {
		p.root.Release()
	}
	p.root = root
	l := t.Layout()
	dims := l.AppendStrides(l.AppendShape(p.dims[:0]))
	p.message.spec = core.Spec{
		DType: t.DType(), Shape: dims[:l.Rank()], Strides: dims[l.Rank():], Offset: t.Offset() - b.Memory().Offset,
		Flags: p.message.spec.Flags | t.Flags()&sharedFlags,
	}
	return nil
}

// release gives back what the parcel holds, and the parcel.
func (p *parcel) release() {
	if p.memory != nil {
		_ = p.memory.Close()
		p.memory = nil
	}
	if p.copied != nil {
		_ = p.copied.Close()
	}
	p.root.Release()
	*p = parcel{}
	parcels.Put(p)
}

// pack finds out how the tensor is passed, and what the peer waits for. The usual case, a known
// memory and no unfinished work, needs no context.
func (c *Conn) pack(ctx context.Context, p *parcel) error {
	if c.isKnown(p) && (p.turn != nil || p.tensor().Ready() == nil) {
		return nil
	}
	ctx, stop := c.bound(ctx)
	defer stop()
	if err := c.prepare(ctx, p); err != nil {
		return err
	}
	return c.orderWrite(ctx, p)
}

// tensor returns the tensor whose memory is passed.
func (p *parcel) tensor() *core.Tensor {
	if p.copied != nil {
		return p.copied
	}
	return p.source
}

// isKnown reports whether the peer has the memory of the parcel, or the parcel has exported it.
func (c *Conn) isKnown(p *parcel) bool {
	if p.memory != nil {
		return true
	}
	c.mu.Lock()
	known := c.known(p.root, p.readOnly())
	c.mu.Unlock()
	if known == nil {
		return false
	}
	p.shared(p.root.Memory().ID, known.handle)
	return true
}

// finish gives back what the parcel holds. It has the peer told how the work ended.
func (c *Conn) finish(p *parcel) {
	if p.turn != nil {
		id := p.message.id
		if !p.sent {
			id = 0
		}
		go c.settle(p.turn, id)
	}
	p.release()
}

// orderWrite makes the peer's device wait for unfinished work, by a semaphore. If that is not possible,
// it waits on the host.
func (c *Conn) orderWrite(ctx context.Context, p *parcel) error {
	if p.turn != nil { // the memory was forgotten meanwhile
		return nil
	}
	t := p.tensor()
	e := t.Ready()
	if e == nil {
		return nil
	}
	if done, err := e.Done(); done && err == nil {
		return nil
	}
	if p.turn = c.orderOnDevice(ctx, p, t, e); p.turn != nil {
		p.message.order, p.message.by, p.message.value = objectSemaphore, p.turn.lane.id, p.turn.value
		p.report.Wait = stream.SemaphoreWait
		return nil
	}
	p.report.Wait = stream.HostWait
	return t.WaitReady(ctx)
}

// prepare finds out how the tensor is passed, and exports or copies its memory.
func (c *Conn) prepare(ctx context.Context, p *parcel) error {
	if c.isKnown(p) {
		return nil
	}
	exported, err := c.export(p)
	if exported || err != nil {
		return err
	}
	if err := c.copyForExport(ctx, p); err != nil {
		return err
	}
	if exported, err = c.export(p); !exported && err == nil {
		err = c.noWay(p)
	}
	return err
}

// readOnly reports whether the receiver may only read the tensor.
func (p *parcel) readOnly() bool { return p.message.spec.Flags&core.FlagReadOnly != 0 }

// shared notes that the memory of the parcel is passed as it is.
func (p *parcel) shared(at core.DeviceID, t core.HandleType) {
	p.report.Handle, p.report.To = t, at
	if p.copied == nil {
		p.report.Mechanism = exchange.Map
	}
}

// export exports the memory of a parcel, if its device can and the peer can open it. It reports
// false if not, and notes why.
func (c *Conn) export(p *parcel) (bool, error) {
	m := p.root.Memory()
	d := m.Device
	e, ok := core.As[core.MemoryExporter](d)
	if d == nil || !ok {
		p.refuse(core.Errorf(core.ErrNotSupported, "", "", "no opened device that exports memory owns it"), "share the memory of %v", m.ID)
		return false, nil
	}
	self := c.describe(d)
	for _, t := range e.ExportTypes() {
		if reason := c.peerOpens(&self, t); reason != nil {
			p.refuse(reason, "export the memory of %v as %v for the peer", m.ID, t)
			continue
		}
		x, err := e.ExportMemory(p.root, t)
		if err == nil {
			if p.sealed, err = seal(&x, p.readOnly(), c.options.ReadOnly); err != nil {
				_ = x.Close()
			}
		}
		if err != nil {
			if errors.Is(err, core.ErrOutOfMemory) || errors.Is(err, core.ErrDeviceLost) {
				return false, err
			}
			p.refuse(err, "export the memory of %v as %v for the peer", m.ID, t)
			continue
		}
		p.root.Exported(x)
		p.memory = &x
		p.shared(m.ID, t)
		return true, nil
	}
	return false, nil
}

// refuse notes why the memory is not shared as it is.
func (p *parcel) refuse(why error, format string, args ...any) {
	if p.copied == nil {
		p.report.refuse(exchange.Map, why, format, args...)
	}
}

// peerOpens returns why no device of the peer opens memory that a device exports as t.
func (c *Conn) peerOpens(self *PeerDevice, t core.HandleType) error {
	if !t.IsFD() {
		return core.Errorf(core.ErrNotSupported, "", "", "the memory of a handle of type %v is gone when its process ends, also while the peer uses it", t)
	}
	c.mu.Lock()
	devices := c.peer.Devices
	c.mu.Unlock()
	return opener(devices, self, t, memories)
}

// copyForExport copies the elements into memory that the peer can open: memory of the same
// device, or else of the host.
func (c *Conn) copyForExport(ctx context.Context, p *parcel) error {
	devices := c.options.Devices
	if d := p.root.Memory().Device; d != nil && !d.ID().Type.HostAccessible() {
		devices = append([]core.Device{d}, devices...)
	}
	for i, d := range devices {
		if i > 0 && !d.ID().Type.HostAccessible() || p.copied != nil {
			continue
		}
		e, ok := core.As[core.MemoryExporter](d)
		if !ok {
			continue
		}
		self := c.describe(d)
		for _, t := range e.ExportTypes() {
			if c.peerOpens(&self, t) != nil {
				continue
			}
			x, report, err := exchange.To(ctx, p.source, d, exchange.Options{Copy: exchange.Always, Alloc: core.AllocOptions{Export: t}})
			if isOf(ctx, err) || errors.Is(err, core.ErrOutOfMemory) || errors.Is(err, core.ErrClosed) {
				return err
			}
			if err != nil {
				p.refuse(err, "copy into memory of %v that is exported as %v", d.ID(), t)
				continue
			}
			p.report.Mechanism, p.report.BytesCopied, p.report.move = report.Mechanism, report.BytesCopied, &report
			p.copied = x
			return p.hold(x)
		}
	}
	return c.noWay(p)
}

// noWay is the error of a tensor that can be neither shared nor copied.
func (c *Conn) noWay(p *parcel) error {
	var reasons []error
	for _, r := range p.report.Refused() {
		reasons = append(reasons, errors.New(r.What+": "+r.Reason))
	}
	return core.Errorf(core.ErrNotSupported, "share", "Send", "memory of %v cannot be passed, and the two sides have not both named a device of the host to copy it to: %v", p.report.From, joinReasons(reasons))
}

// joinReasons puts errors on one line.
func joinReasons(list []error) error {
	text := ""
	for i, err := range list {
		if i > 0 {
			text += "; "
		}
		text += err.Error()
	}
	return errors.New(text)
}
