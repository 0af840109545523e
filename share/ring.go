package share

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/live"
	"github.com/dlx-go/dlx/stream"
)

// Mode says what a publisher does when its subscribers are slower than it is.
type Mode uint8

const (
	// Queue passes every frame to every subscriber, from its subscription on.
	// [Publisher.Loan] waits until all subscribers have released a slot.
	Queue Mode = iota + 1
	// Latest passes the newest frame to each subscriber when it asks. Older ones that it has
	// not received are lost for it. [Publisher.Loan] does not wait for subscribers.
	Latest
)

// String returns "queue" or "latest".
func (m Mode) String() string {
	switch m {
	case Queue:
		return "queue"
	case Latest:
		return "latest"
	default:
		return "mode " + strconv.Itoa(int(m))
	}
}

// Ring describes a ring of slots, each of which holds a tensor of the same type and shape.
type Ring struct {
	// Slots is how many tensors there are: 1 to 256. A ring of the mode Latest needs two, and
	// one more for each frame that a subscriber may hold.
	Slots int
	Shape []int64
	DType core.DType
	// Device has the memory of the slots. It must export memory that the subscribers' devices
	// can open. The caller keeps it open until the publisher and the tensors of the slots are
	// closed. With nil, the memory is that of the host, and belongs to no device.
	Device core.Device
	Mode   Mode
}

// check fails with ErrInvalid for a ring that cannot be. It returns the distance of the slots.
func (r *Ring) check(name string) (stride int64, err error) {
	invalid := func(format string, args ...any) (int64, error) {
		return 0, core.Errorf(core.ErrInvalid, "share", "Publish", format, args...)
	}
	least := 1
	if r.Mode == Latest {
		least = 3
	}
	switch {
	case name == "" || len(name) > maxName:
		return invalid("the name of the ring has %d bytes: 1 to %d are possible", len(name), maxName)
	case r.Mode != Queue && r.Mode != Latest:
		return invalid("the ring has the mode %d: use share.Queue or share.Latest", r.Mode)
	case r.Slots < least || r.Slots > maxSlots:
		return invalid("the ring has %d slots: %d to %d are possible in the mode %v", r.Slots, least, maxSlots, r.Mode)
	}
	var t core.Tensor // only to check it, on memory that has any bytes
	whole := core.Memory{ID: core.CPU, Handle: 1, Size: core.UnknownSize}
	if err := privateCore.Describe("Publish", &t, &whole, &core.Spec{DType: r.DType, Shape: r.Shape}); err != nil {
		return 0, err
	}
	bytes := t.NumBytes()
	switch {
	case t.IsEmpty():
		return invalid("the shape %v has no elements", r.Shape)
	case bytes > maxBytes/maxSlots-slotAlignment:
		return invalid("a slot has %d bytes: at most %d are possible", bytes, int64(maxBytes/maxSlots-slotAlignment))
	}
	return (bytes + slotAlignment - 1) / slotAlignment * slotAlignment, nil
}

// slotAlignment is that of all memory that devices of this module allocate.
const slotAlignment = 256

// isHost reports whether the slots lie in the ring's file.
func (r *Ring) isHost() bool { return r.Device == nil || r.Device.ID().Type == core.CPU.Type }

// Reader is a subscriber, and how it gets each frame.
type Reader struct {
	Peer        Peer               `json:"peer"`
	To          core.DeviceID      `json:"to"`           // where it uses the frame, as it calls the device
	Mechanism   exchange.Mechanism `json:"mechanism"`    // Map if it uses the memory of the slot
	BytesCopied int64              `json:"bytes_copied"` // of each frame, by the subscriber

	// Wait says how it waits for the work on a frame that was unfinished when it was sent: SemaphoreWait if its device
	// can wait, HostWait if its process waits for a message. It is NoWait for other frames.
	Wait stream.Wait `json:"wait,omitzero"`
	// Refused says why its device cannot wait, or why Send has waited.
	Refused string `json:"refused,omitempty"`
}

// RingReport says how a frame was passed on.
type RingReport struct {
	Sequence uint64 // number of the frame, from 1 on
	// Wait is HostWait if Send has waited for the work on the slot. It is SemaphoreWait if the work was unfinished, and Send
	// has not waited: each subscriber waits by itself, and Reader.Wait says whether by a semaphore. It is NoWait if the work
	// was done.
	Wait stream.Wait
	// Readers are the subscribers at that time. The caller does not change the slice, which
	// later reports share.
	Readers []Reader
}

// Publisher writes the frames of a ring. It is safe for concurrent use. [Conn.Publish] makes it,
// and the caller closes it, before the device of the ring.
type Publisher struct {
	ring     Ring
	message  ringMessage // without the numbers, which differ between connections
	fd       int         // of the ring's file
	words    *mapping    // of the ring's file
	whole    *core.Tensor
	place    *core.Buffer // of whole
	life     context.Context
	stop     context.CancelFunc
	patience time.Duration // of its connection, as the next one
	exitTime time.Duration
	idle     sync.WaitGroup // of what uses the publisher when Close is called
	spins

	mu       sync.Mutex
	slots    []publishedSlot
	readers  []*reader
	reports  []Reader // of those that have not left; it is replaced, not changed
	leaving  bool     // one of the readers has left, and still holds slots
	offers   map[*Conn]uint32
	count    uint64 // frames
	entry    int    // of the log, for the last frame: count modulo slots
	latest   int    // slot of the last frame; -1 before the first one
	last     int    // slot that was loaned last
	next     int    // slot to begin the search at
	blamed   bool   // a wait of Loan was counted since the last loan
	sleepers int
	working  int             // frames whose work is unfinished
	watched  <-chan struct{} // of the context whose end wakes the publisher
	unwatch  func() bool
	closed   bool
}

// publishedSlot is a slot at its writer. The publisher's mutex guards it.
type publishedSlot struct {
	tensor  *core.Tensor // kept for the next loan; nil if there is none
	buffer  *core.Buffer // of tensor
	owner   *publishedOwner
	loaned  bool
	free    bool            // it is known that no subscriber needs the frame
	frame   uint64          // that it holds; 0 if none
	retired int             // waits for the device, or for the end of a process
	spoiled *publishedOwner // of the last tensor, whose work has failed, until its memory is free; nil if there is none
	work    *frameWork      // of the frame, if it was sent before its work was done
}

// publishedOwner is the owner of the memory of a slot's tensor.
type publishedOwner struct {
	publisher *Publisher
	slot      int
	place     *core.Buffer // it holds a reference
	ending    bool         // all tensors are closed, and work on them is unfinished; the publisher's mutex guards it
}

var _ core.Owner = (*publishedOwner)(nil)

// Free implements [core.Owner]: the tensor of the slot and all views are closed, and all work on them is done.
func (o *publishedOwner) Free() {
	o.over()
	o.place.Release()
}

func (o *publishedOwner) over() {
	p := o.publisher
	p.mu.Lock()
	switch s := &p.slots[o.slot]; o {
	case s.owner: // the program has closed the tensor
		s.tensor, s.buffer, s.owner, s.loaned = nil, nil, nil, false
		p.stir()
	case s.spoiled:
		s.spoiled = nil
		p.stir()
	}
	p.mu.Unlock()
}

// FreeAfter is Free, after work that is unfinished.
func (o *publishedOwner) FreeAfter(pending []core.Event) {
	p := o.publisher
	p.mu.Lock()
	o.ending = true
	p.mu.Unlock()
	freeAfter(pending, o.place, o.over)
}

var livePublishers = live.NewCounter("share.Publisher")

// Publish makes a ring, and lets the peer subscribe to it by name; see [Conn.Subscribe]. Further
// connections get the same ring by [Publisher.Offer]. The ring does not end with the connection:
// the caller closes the result. Publish waits while what the peer has leaves no room within its
// [Limits].
//
// Publish returns core.ErrInvalid if the name or the ring is wrong, core.ErrExists if this side
// has published a ring of that name, core.ErrNotSupported if the peer's version of dlx has no
// rings or its devices cannot open the memory, core.ErrOutOfMemory if there is no memory or the
// peer permits no more, ctx's error, and the [*ConnError] of a connection that has ended.
func (c *Conn) Publish(ctx context.Context, name string, r Ring) (*Publisher, error) {
	if c == nil || c.socket == nil {
		return nil, noConn("Publish")
	}
	stride, err := r.check(name)
	if err != nil {
		return nil, err
	}
	r.Shape = slices.Clone(r.Shape)
	p := &Publisher{
		patience: c.options.patience, exitTime: c.options.exitTime,
		ring: r, slots: make([]publishedSlot, r.Slots), offers: make(map[*Conn]uint32), latest: -1,
		message: ringMessage{name: name, slots: r.Slots, mode: r.Mode, stride: stride, spec: core.Spec{DType: r.DType, Shape: r.Shape}},
	}
	if err := p.allocate(ctx); err != nil {
		return nil, err
	}
	p.life, p.stop = context.WithCancel(context.Background())
	livePublishers.Add(1)
	if err := p.Offer(ctx, c); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// allocate makes the ring's file and the memory of the slots.
func (p *Publisher) allocate(ctx context.Context) (err error) {
	m := &p.message
	m.size = wholePages(wordsSize(m.slots))
	if p.ring.isHost() {
		m.offset = m.size
		m.size += wholePages(int64(m.slots) * m.stride)
	}
	if p.fd, p.words, err = newShared("Publish", m.size); err != nil {
		return err
	}
	if p.ring.isHost() {
		p.whole, err = hostMemory(p.words, p.ring.Device, false)
	} else {
		p.whole, err = p.deviceMemory(ctx)
	}
	if err == nil {
		p.place, err = p.whole.Buffer()
	}
	if err != nil {
		closeFD(p.fd)
		p.words.release()
	}
	return err
}

// hostMemory makes a tensor of the bytes of a mapping, which belongs to a device of the host, or to
// none. It holds a reference to the mapping.
func hostMemory(m *mapping, device core.Device, readOnly bool) (*core.Tensor, error) {
	m.retain()
	memory := core.Memory{ID: core.CPU, Handle: m.address(0), Size: m.size, Owner: core.FreeFunc(m.release)}
	if i, ok := core.As[core.PointerImporter](device); ok && device != nil {
		owned, err := i.ImportPointer(memory.Handle, m.size, memory.Owner)
		if err != nil {
			m.release()
			return nil, err
		}
		memory = owned
	}
	memory.ReadOnly = readOnly
	t, err := core.Wrap(memory, core.Spec{DType: core.TypeUint8, Shape: []int64{m.size}})
	if err != nil {
		memory.Free()
	}
	return t, err
}

// deviceMemory allocates the slots on a device, for any of the handle types that can be passed.
func (p *Publisher) deviceMemory(ctx context.Context) (*core.Tensor, error) {
	d := p.ring.Device
	e, ok := core.As[core.MemoryExporter](d)
	if ok {
		for _, t := range e.ExportTypes() {
			if t.IsFD() {
				return core.Empty(ctx, d, core.TypeUint8, []int64{int64(p.message.slots) * p.message.stride}, core.AllocOptions{Export: t})
			}
		}
	}
	return nil, core.Errorf(core.ErrNotSupported, "share", "Publish", "%v exports no memory that another process can open: use a ring of the host", d.ID())
}

// Offer lets the peer of a further connection subscribe to the ring. It fails like
// [Conn.Publish], and with core.ErrClosed if the publisher is closed.
func (p *Publisher) Offer(ctx context.Context, c *Conn) error {
	if p == nil || p.words == nil {
		return noPublisher("Offer")
	}
	if c == nil || c.socket == nil {
		return noConn("Offer")
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return p.isClosed("Offer")
	}
	p.idle.Add(1) // Close ends ctx, and waits
	p.mu.Unlock()
	defer p.idle.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	err := p.offerTo(ctx, c)
	if err != nil && p.life.Err() != nil {
		return p.isClosed("Offer")
	}
	return err
}

// offerTo is Offer, while the publisher is open.
func (p *Publisher) offerTo(ctx context.Context, c *Conn) error {
	if err := c.Handshake(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	features := c.features
	c.mu.Unlock()
	if features&featureRings == 0 {
		return core.Errorf(core.ErrNotSupported, "share", "Publish", "the dlx of %v knows no rings: use a newer version there", c.Peer())
	}
	if err := c.lock(ctx, c.sending); err != nil {
		return err
	}
	defer func() { <-c.sending }()
	return c.offer(ctx, p)
}

// noPublisher is the error of a call on a publisher that there is not.
func noPublisher(call string) error {
	return core.Errorf(core.ErrInvalid, "share", call, "the publisher is nil or was not made by Publish")
}

func (p *Publisher) isClosed(call string) error {
	return core.Errorf(core.ErrClosed, "share", call, "the publisher of ring %q was closed", p.message.name)
}

// Close ends the ring. Subscribers of a ring of the mode Queue still receive the frames that were
// sent; call [Publisher.WaitReleased] before the end of their connections. Tensors that were loaned
// stay open until the caller closes them. Close waits for a second at most for unfinished work on frames
// that were sent; subscribers then get an error for those frames. A second Close does nothing. Close
// always returns nil.
func (p *Publisher) Close() error {
	if p == nil || p.words == nil {
		return nil
	}
	p.drain()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	for _, r := range p.readers {
		p.end(r)
	}
	offers := p.offers
	p.offers, p.readers, p.reports = nil, nil, nil
	var kept []*core.Tensor
	for i := range p.slots {
		if s := &p.slots[i]; s.tensor != nil && !s.loaned {
			kept = append(kept, s.tensor)
			s.tensor, s.buffer, s.owner = nil, nil, nil
		}
	}
	if p.unwatch != nil {
		p.unwatch()
	}
	stir(p.words.u32(turnAt))
	p.mu.Unlock()
	p.stop()
	p.idle.Wait()
	for c, id := range offers {
		c.withdraw(p, id)
	}
	for _, t := range kept {
		t.Close()
	}
	p.whole.Close()
	closeFD(p.fd)
	p.words.release()
	livePublishers.Add(-1)
	return nil
}

// stir wakes all calls that sleep. p.mu is held.
func (p *Publisher) stir() {
	if !p.closed && p.sleepers > 0 {
		stir(p.words.u32(turnAt))
	}
}

// Readers returns the subscribers.
func (p *Publisher) Readers() []Reader {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.reports)
}
