package share

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// receiver is what a connection keeps of what it has received. The connection's mutex guards
// it.
type receiver struct {
	opened      map[uint32]*openMemory
	semaphores  map[uint32]*openSemaphore
	openedBytes int64
	queue       []*heldTensor          // that Receive has not returned
	held        map[uint64]*heldTensor // that are not released
	released    []uint64               // tensors that the peer is to be told of
}

// probe is a tensor that is made only to check a message.
type probe struct {
	tensor core.Tensor
	memory core.Memory
}

func newReceiver() receiver {
	return receiver{opened: make(map[uint32]*openMemory), semaphores: make(map[uint32]*openSemaphore), held: make(map[uint64]*heldTensor)}
}

// openMemory is memory of the peer. Its connection opens it when a tensor on it is received.
type openMemory struct {
	external core.ExternalMemory
	lost     bool // its descriptor could not be received; fixed
	readOnly bool // the descriptor permits no writing
	tensors  int  // held; guarded by the connection's mutex

	// busy holds one element while a call uses what is below.
	busy   chan struct{}
	closed bool
	home   *core.Tensor                 // all of the memory where it was opened; nil before
	places map[core.Device]*core.Tensor // all of it on other devices, which map it
}

// close closes the memory. Tensors on it keep open what they need.
func (m *openMemory) close() {
	m.busy <- struct{}{}
	m.closed = true
	for _, t := range m.places {
		t.Close()
	}
	m.home.Close()
	_ = m.external.Close()
	<-m.busy
}

// heldTensor is a tensor of the peer that was not released.
type heldTensor struct {
	message tensorMessage
	dims    [16]int64   // shape and strides of the message, if they fit
	memory  *openMemory // nil for a tensor without elements
	owner   heldOwner   // of the first tensor on the memory

	order  *openSemaphore // that it waits for; nil if the elements are there
	result *stream.Event  // of the peer's work; nil without order
	told   bool           // the peer has told the result; guarded by the connection's mutex, like ended
	ended  bool           // it was released before that
}

// takeMemory handles a memory. It reports whether it owns the descriptors.
func (c *Conn) takeMemory(payload []byte, fds []int) (owned bool, err error) {
	id, what, data, err := readObject(payload)
	if err != nil {
		return false, err
	}
	if what != objectMemory {
		return false, violation("memory %d is of kind %d", id, what)
	}
	x, err := core.UnmarshalExternalMemory(data, fds)
	if err != nil {
		return false, core.Errorf(core.ErrInvalid, "share", "message", "memory %d: %v", id, err)
	}
	if err := c.addMemory(id, x); err != nil {
		_ = x.Close()
		return true, err
	}
	return true, nil
}

// addMemory checks a memory and keeps it. On failure the caller closes it.
func (c *Conn) addMemory(id uint32, x core.ExternalMemory) error {
	t := x.Handle.Type()
	known := false
	for i := range c.self {
		known = known || slices.Contains(c.self[i].Imports, t)
	}
	switch {
	case !known:
		return violation("memory %d has a handle of type %v, which this process did not say that it opens", id, t)
	case x.Length == 0:
		return violation("memory %d has no bytes", id)
	}
	seals, err := checkFile(x)
	if err != nil {
		return err
	}
	return c.keepMemory(id, &openMemory{external: x, readOnly: isReadOnly(x, seals)})
}

// keepMemory keeps a memory, if the limits permit it.
func (c *Conn) keepMemory(id uint32, m *openMemory) error {
	x := &m.external
	c.mu.Lock()
	defer c.mu.Unlock()
	limits := &c.options.Limits
	switch {
	case c.opened[id] != nil || c.semaphores[id] != nil:
		return violation("memory %d was passed twice", id)
	case len(c.opened)+len(c.announced) >= limits.Memories, c.openedBytes > limits.Bytes-x.Size:
		return core.Errorf(core.ErrOutOfMemory, "share", "message",
			"memory %d of %d bytes came beside %d memories of %d bytes; this process permits %d of %d bytes together", id, x.Size, len(c.opened), c.openedBytes, limits.Memories, limits.Bytes)
	}
	if err := c.quota.take(usage{descriptors: 1, bytes: x.Size}); err != nil {
		return err
	}
	m.busy, m.places = make(chan struct{}, 1), make(map[core.Device]*core.Tensor)
	c.opened[id] = m
	c.openedBytes += x.Size
	return nil
}

// takeTensor handles a tensor.
func (c *Conn) takeTensor(payload []byte) error {
	x := c.heldSlab.take()
	message := &x.message
	if err := message.read(payload, x.dims[:]); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, whole := &c.probe.tensor, &c.probe.memory
	*whole = core.Memory{ID: core.CPU}
	if message.memory != 0 {
		if x.memory = c.opened[message.memory]; x.memory == nil {
			return violation("tensor %d lies in memory %d, which is not open", message.id, message.memory)
		}
		whole.Handle, whole.Size = 1, x.memory.external.Length
	}
	if err := privateCore.Describe("message", t, whole, &message.spec); err != nil {
		return core.Errorf(core.ErrInvalid, "share", "message", "tensor %d: %v", message.id, err)
	}
	switch {
	case t.IsEmpty() != (message.memory == 0):
		return violation("tensor %d of the shape %v lies in memory %d: a tensor lies in a memory if it has elements", message.id, message.spec.Shape, message.memory)
	case message.order != 0 && (message.order != objectSemaphore || c.semaphores[message.by] == nil || message.memory == 0):
		return violation("tensor %d is ordered by object %d of kind %d, which is not open, or has no elements", message.id, message.by, message.order)
	case x.memory != nil && x.memory.readOnly && message.spec.Flags&core.FlagReadOnly == 0:
		return violation("tensor %d may be written, and memory %d may not", message.id, message.memory)
	case c.held[message.id] != nil:
		return violation("tensor %d was sent twice", message.id)
	case len(c.held) >= c.options.Limits.Tensors:
		return core.Errorf(core.ErrOutOfMemory, "share", "message", "tensor %d came while %d others were not released, which is the limit", message.id, len(c.held))
	}
	c.held[message.id] = x
	if x.memory != nil {
		x.memory.tensors++
	}
	if message.order != 0 {
		x.order, x.result = c.semaphores[message.by], stream.NewEvent()
		x.order.tensors++
	}
	c.queue = append(c.queue, x)
	c.notify()
	return nil
}

// takeForget handles that the peer has freed a memory.
func (c *Conn) takeForget(payload []byte) error {
	id, err := readForget(payload)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if s := c.semaphores[id]; s != nil && s.tensors == 0 {
		delete(c.semaphores, id)
		c.quota.give(usage{descriptors: 1})
		c.mu.Unlock()
		s.close(false) // nothing waits for it
		return nil
	}
	m := c.opened[id]
	if m == nil || m.tensors > 0 {
		c.mu.Unlock()
		return violation("memory %d was freed, and is not open or has tensors that are not released", id)
	}
	delete(c.opened, id)
	c.openedBytes -= m.external.Size
	c.quota.give(usage{descriptors: 1, bytes: m.external.Size})
	c.mu.Unlock()
	m.close()
	return nil
}

// Receive waits for the next tensor of the peer and returns it on the device. If device is nil,
// it returns the tensor where its memory was opened, which is a device of Options.Devices. The
// caller closes the result, which tells the peer.
//
// If the memory can be opened on the device, or mapped there, nothing is copied; see the
// report. A result that shares the memory of the peer is read-only if the sender says so. Its
// order is its own: a program that writes one of two tensors on the same bytes orders that
// itself. If the peer's work on the tensor is unfinished, Ready of the result is an event that
// is done when the elements are there, or when the connection has ended.
//
// Receive returns ctx's error, in which case the tensor stays the next one; core.ErrInvalid if
// the connection is nil; core.ErrNotSupported if no device of Options.Devices can open the
// memory, with the reasons; other errors of opening the memory and of [exchange.To], and the
// [*ConnError] of a connection that has ended. After other errors than that of ctx, the tensor
// was released.
func (c *Conn) Receive(ctx context.Context, device core.Device) (*core.Tensor, Report, error) {
	start := time.Now()
	err := c.await(ctx, "Receive", func() bool { return len(c.queue) > 0 })
	if err != nil {
		return nil, Report{}, err
	}
	x := c.queue[0]
	c.queue = c.queue[:copy(c.queue, c.queue[1:])]
	c.mu.Unlock()
	t, r, err := c.open(ctx, x, device)
	switch {
	case err == nil:
		c.mu.Lock()
		c.stats.Received++
		c.stats.BytesReceived += t.NumBytes()
		c.stats.BytesCopied += r.BytesCopied
		c.mu.Unlock()
	case isOf(ctx, err):
		c.mu.Lock()
		c.queue = append([]*heldTensor{x}, c.queue...)
		c.notify()
		c.mu.Unlock()
	default:
		c.end(x)
		if errors.Is(err, errHostile) {
			c.fail(core.Errorf(core.ErrInvalid, "share", "Receive", "memory %d: %v", x.message.memory, err))
		}
		if ended := c.cause(); ended != nil {
			err = ended
		}
	}
	r.Label, r.Duration = x.message.label, time.Since(start)
	return t, r, err
}

// errHostile says that memory of the peer is not what the peer says.
var errHostile = errors.New("the peer's memory is not what it says")

// end releases a tensor of the peer.
func (c *Conn) end(x *heldTensor) {
	c.mu.Lock()
	if c.held[x.message.id] == x { // else the connection has ended
		if x.order != nil {
			if !x.told { // takeResult ends it
				x.ended = true
				c.mu.Unlock()
				return
			}
			x.order.tensors--
		}
		delete(c.held, x.message.id)
		if x.memory != nil {
			x.memory.tensors--
		}
		c.released = append(c.released, x.message.id)
	}
	c.mu.Unlock()
	c.tell()
}

// open makes the tensor that Receive returns. It does not release x on failure.
func (c *Conn) open(ctx context.Context, x *heldTensor, device core.Device) (*core.Tensor, Report, error) {
	if x.memory == nil {
		return c.openEmpty(x, device)
	}
	t, o, r, err := c.openShared(ctx, x, device)
	if err != nil || device == nil || t.Device() == device {
		return t, r, err
	}
	defer t.Close()
	ctx, stop := c.bound(ctx)
	defer stop()
	y, move, err := exchange.To(ctx, t, device, exchange.Options{})
	if err != nil {
		o.keep = true
		return nil, r, err
	}
	r.Mechanism, r.BytesCopied, r.move = move.Mechanism, move.BytesCopied, &move
	return y, r, nil
}

// openEmpty makes a tensor without elements, and releases x.
func (c *Conn) openEmpty(x *heldTensor, device core.Device) (*core.Tensor, Report, error) {
	m := core.Memory{ID: core.CPU, Device: device}
	if device != nil {
		m.ID = device.ID()
	}
	t, err := core.Wrap(m, x.message.spec)
	if err == nil {
		c.end(x)
	}
	return t, Report{From: m.ID, To: m.ID, Mechanism: exchange.Alias}, err
}

// openShared makes a tensor on the peer's memory: on the device if it can open or map it, and
// otherwise where the memory was opened. Its owner releases x.
func (c *Conn) openShared(ctx context.Context, x *heldTensor, device core.Device) (*core.Tensor, *heldOwner, Report, error) {
	m, r := x.memory, Report{Mechanism: exchange.Map}
	if err := c.lock(ctx, m.busy); err != nil {
		return nil, nil, r, err
	}
	defer func() { <-m.busy }()
	if m.closed {
		return nil, nil, r, c.cause()
	}
	if m.lost {
		return nil, nil, r, errLostMemory
	}
	r.Handle = m.external.Handle.Type()
	if err := c.openHome(ctx, m, device, &r); err != nil {
		return nil, nil, r, err
	}
	r.From = m.home.DeviceID()
	place := m.home
	if device != nil && m.home.Device() != device {
		mapped, err := c.place(ctx, m, device, &r)
		if err != nil {
			return nil, nil, r, err
		}
		if mapped != nil {
			place = mapped
		}
	}
	r.To = place.DeviceID()
	if device != nil {
		r.To = device.ID()
	}
	at := place.Device()
	if _, ok := core.As[core.SemaphoreImporter](at); !ok && device != nil {
		at = device // which copies
	}
	ready, err := c.order(ctx, x, at, &r)
	if err != nil {
		return nil, nil, r, err
	}
	t, o, err := c.wrap(x, place, ready)
	return t, o, r, err
}

// openHome opens a memory, if it is not open: on the device, or on another one of this process.
// The caller holds m.busy.
func (c *Conn) openHome(ctx context.Context, m *openMemory, device core.Device, r *Report) error {
	if m.home != nil {
		return nil
	}
	ctx, stop := c.bound(ctx)
	defer stop()
	devices := c.options.Devices
	if device != nil {
		devices = append([]core.Device{device}, devices...)
	}
	exporter := PeerDevice{UUID: m.external.DeviceUUID, DriverUUID: m.external.DriverUUID}
	t := m.external.Handle.Type()
	var reasons []error
	hostile := false
	for i, d := range devices {
		self := c.describe(d)
		importer, ok := core.As[core.MemoryImporter](d)
		if !ok || i > 0 && d == device || self.opens("this process", &exporter, t, memories) != nil {
			continue
		}
		memory, err := importer.ImportMemory(ctx, m.external)
		if err == nil {
			m.home, err = core.Wrap(memory, core.Spec{DType: core.TypeUint8, Shape: []int64{memory.Size}})
			if err != nil {
				memory.Free()
			}
		}
		if err == nil {
			r.Opened = true
			r.did("open the peer's memory on %v by its handle of type %v", d.ID(), t)
			c.mu.Lock()
			c.stats.MemoriesOpened++
			c.mu.Unlock()
			return nil
		}
		if isOf(ctx, err) || errors.Is(err, core.ErrOutOfMemory) {
			return err
		}
		hostile = hostile || errors.Is(err, core.ErrInvalid)
		reasons = append(reasons, err)
	}
	if len(reasons) == 0 {
		return core.Errorf(core.ErrNotSupported, "share", "Receive", "no device that this process has named opens the peer's handle of type %v of the device %v, driver %v", t, exporter.UUID, exporter.DriverUUID)
	}
	if hostile {
		return core.Errorf(errHostile, "share", "Receive", "%v", joinReasons(reasons))
	}
	return core.Errorf(core.ErrNotSupported, "share", "Receive", "the peer's memory cannot be opened: %v", joinReasons(reasons))
}

// place returns all of the memory on another device that maps it, or nil if that cannot. The
// caller holds m.busy.
func (c *Conn) place(ctx context.Context, m *openMemory, device core.Device, r *Report) (*core.Tensor, error) {
	if t, tried := m.places[device]; tried {
		return t, nil
	}
	ctx, stop := c.bound(ctx)
	defer stop()
	t, move, err := exchange.To(ctx, m.home, device, exchange.Options{Copy: exchange.Never})
	switch {
	case err == nil:
		r.Opened, r.move = true, &move
	case !errors.As(err, new(*exchange.NoWayError)):
		return nil, err
	}
	m.places[device] = t // or that there is no way
	return t, nil
}

// heldOwner is the owner of the memory of a tensor that was received.
type heldOwner struct {
	conn  *Conn
	held  *heldTensor
	place *core.Buffer // it holds a reference
	keep  bool         // the tensor is not released with the memory

	// The connection's mutex guards these.
	own     *core.Buffer // of the tensor
	pending []core.Event // of work that reads, when all tensors are closed
}

var _ core.Owner = (*heldOwner)(nil)

// Free implements [core.Owner]: all tensors are closed, and all work on them is done.
func (o *heldOwner) Free() {
	o.place.Release()
	o.over()
}

func (o *heldOwner) over() {
	if !o.keep {
		o.conn.end(o.held)
	}
}

// FreeAfter is Free, after work that is unfinished.
func (o *heldOwner) FreeAfter(pending []core.Event) {
	o.conn.mu.Lock()
	o.pending = pending
	o.conn.mu.Unlock()
	freeAfter(pending, o.place, o.over)
}

// wrap makes a tensor on the memory of place, which is a whole memory of the peer. ready is the
// event of the peer's work, or nil if that is done.
func (c *Conn) wrap(x *heldTensor, place *core.Tensor, ready core.Event) (*core.Tensor, *heldOwner, error) {
	b, err := place.Buffer()
	if err != nil {
		return nil, nil, err
	}
	if err := b.Retain(); err != nil {
		return nil, nil, err
	}
	o := &x.owner
	if o.held != nil { // a call before has failed late: its tensor may not be freed yet
		o = new(heldOwner)
	}
	*o = heldOwner{conn: c, held: x, place: b}
	m := b.Memory()
	m.Owner = o
	t, err := core.Wrap(m, x.message.spec)
	if err != nil {
		b.Release()
		return nil, nil, err
	}
	own, err := t.Buffer()
	if err != nil { // cannot be: t is open
		_ = t.Close()
		return nil, nil, err
	}
	if ready != nil {
		own.Wrote(ready)
	}
	c.mu.Lock()
	o.own = own
	c.mu.Unlock()
	return t, o, nil
}

// endReceiver closes the memory of the peer, when the connection has ended. Tensors that were
// received keep it open.
func (c *Conn) endReceiver() {
	c.mu.Lock()
	opened, held, semaphores, err := c.opened, c.held, c.semaphores, c.err
	c.receiver = newReceiver()
	c.mu.Unlock()
	endArrivals(held, semaphores, err)
	for _, m := range opened {
		m.close()
	}
}
