package remote

import (
	"cmp"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

// keySize is the size of the random number that names an offer.
const keySize = 16

// OfferOptions controls an offer.
type OfferOptions struct {
	// Lease is how long the offer is valid. 0 means until the offer, or the listener or connection that it was made on,
	// is closed.
	Lease time.Duration
	// Writable permits that peers overwrite the elements by Put. The tensor must be contiguous.
	Writable bool
	// Address is where Fetch finds the listener, if that listens at all addresses of the machine, such as
	// "10.0.0.7:7470". Default: the address of the listener.
	Address string
	// Name is the name by which [Conn.List] of a peer finds the offer, of at most 1024 bytes. Every peer that may connect can
	// then read the elements. Offers of one listener have different names. "" means that peers need the descriptor.
	Name string
}

// Offer permits peers to read the elements of a tensor, or to overwrite them. It is safe for concurrent use. [Listener.Offer]
// or [Conn.Offer] makes it, and the caller closes it.
type Offer struct {
	descriptor []byte
	home       *offers
	key        [keySize]byte
	name       string // "" if it is not listed
	number     uint64 // by which lists are in order
	writable   bool
	origin     *core.Buffer // of the memory, by which the work on it is ordered; nil if the offer is not writable
	timer      *time.Timer  // of the lease; nil if that has no end
	done       chan struct{}
	busy       chan struct{} // holds one element while a request uses a writable offer
	arriving   *gathering    // whose rows are offered while they arrive; nil if all are there
	read       atomic.Int64  // bytes of elements that were sent because of requests

	once   sync.Once
	mu     sync.RWMutex // for writing, while tensor is closed
	tensor *core.Tensor // on the memory of the offered tensor; nil at the end
}

var liveOffers = live.NewCounter("remote.Offer")

// offerNumbers is the last number that an offer with a name has got.
var offerNumbers atomic.Uint64

// overwritten counts, by its origin, the uses of memory that a Put may be writing: the writable offers of this process, and
// requests for them that are being served, which may outlast the offers.
var overwritten = struct {
	mu   sync.Mutex
	uses map[*core.Buffer]int
}{uses: make(map[*core.Buffer]int)}

// countOverwritten adds n uses of memory. An origin of nil is of an offer that is not writable.
func countOverwritten(origin *core.Buffer, n int) {
	if origin == nil {
		return
	}
	overwritten.mu.Lock()
	defer overwritten.mu.Unlock()
	if overwritten.uses[origin] += n; overwritten.uses[origin] == 0 {
		delete(overwritten.uses, origin)
	}
}

// mayBeOverwritten reports whether a Put, of this process or another one, may be writing the memory of the tensor.
func mayBeOverwritten(t *core.Tensor) bool {
	b, err := t.Buffer()
	if err != nil {
		return false
	}
	overwritten.mu.Lock()
	defer overwritten.mu.Unlock()
	return overwritten.uses[b.Origin()] > 0
}

// offers are the offers of a listener or of a connection. The zero value is empty.
type offers struct {
	mu     sync.Mutex
	closed bool
	byKey  map[[keySize]byte]*Offer
	byName map[string]*Offer
	listed []*Offer // those that have a name, by their numbers
}

// find returns an offer, or nil if there is none. The key has 128 random bits, so the time that a map takes tells nothing.
func (s *offers) find(key [keySize]byte) *Offer {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[key]
}

// add adds an offer, and counts it. It fails with core.ErrClosed if there can be none any more.
func (s *offers) add(o *Offer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return core.Errorf(core.ErrClosed, "remote", "Offer", "the listener or connection was closed")
	case o.name != "" && s.byName[o.name] != nil:
		return core.Errorf(core.ErrExists, "remote", "Offer", "another offer has the name %q: close it, or choose another name", o.name)
	case s.byKey[o.key] != nil: // keys are random, except those of relays
		return invalid("Relay", "this listener offers the tensor already: close that offer before")
	}
	liveOffers.Add(1)
	if s.byKey == nil {
		s.byKey, s.byName = make(map[[keySize]byte]*Offer), make(map[string]*Offer)
	}
	s.byKey[o.key] = o
	countOverwritten(o.origin, 1)
	if o.name != "" {
		o.number = offerNumbers.Add(1)
		s.byName[o.name] = o
		s.listed = append(s.listed, o)
	}
	return nil
}

// drop removes an offer, if it is there.
func (s *offers) drop(o *Offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey, o.key)
	if o.name == "" || s.byName[o.name] != o {
		return
	}
	delete(s.byName, o.name)
	if i, ok := s.place(o.number); ok {
		s.listed = slices.Delete(s.listed, i, i+1)
	}
}

// place returns where an offer with a number is among those that have names, or would be. s.mu is held.
func (s *offers) place(number uint64) (int, bool) {
	return slices.BinarySearchFunc(s.listed, number, func(o *Offer, n uint64) int { return cmp.Compare(o.number, n) })
}

// close ends all offers.
func (s *offers) close() {
	s.mu.Lock()
	s.closed = true
	left := s.byKey
	s.byKey, s.byName, s.listed = nil, nil, nil
	s.mu.Unlock()
	for _, o := range left {
		_ = o.Close()
	}
}

// Offer offers the elements of t to all peers of the listener that have the descriptor of the result. The caller still owns
// t, and closes the offer. The memory stays allocated until the offer ends and no peer reads it.
//
// A program that only offers tensors calls [Listener.Serve]. One that accepts no connections serves no more than 1024 at the same
// time; see [Listener].
//
// Offer returns core.ErrInvalid if t is nil or an option is wrong; core.ErrClosed if t or the listener is closed;
// core.ErrDevice if no opened device can access the elements; core.ErrExists if another offer has the name; and for a writable offer core.ErrReadOnly if t is read-only
// and core.ErrLayout if it is not contiguous.
func (l *Listener) Offer(t *core.Tensor, o OfferOptions) (*Offer, error) {
	if l == nil || l.socket == nil {
		return nil, invalid("Offer", "the listener is nil or was not made by Listen")
	}
	if o.Address == "" {
		o.Address = l.Addr().String()
	}
	return l.offers.make(t, o)
}

// Offer is like [Listener.Offer], for the peer of this connection only. The offer ends with the connection.
func (c *Conn) Offer(t *core.Tensor, o OfferOptions) (*Offer, error) {
	if c == nil || c.raw == nil {
		return nil, noConn("Offer")
	}
	x, err := c.own.make(t, o)
	if ended := c.Err(); err != nil && ended != nil {
		return nil, ended
	}
	return x, err
}

func (s *offers) make(t *core.Tensor, o OfferOptions) (*Offer, error) {
	switch {
	case t == nil:
		return nil, invalid("Offer", "the tensor is nil")
	case o.Lease < 0:
		return nil, invalid("Offer", "the lease is %v, and cannot be negative", o.Lease)
	case len(o.Address) > maxAddress:
		return nil, invalid("Offer", "the address has %d bytes; %d are possible", len(o.Address), maxAddress)
	case len(o.Name) > maxLabel:
		return nil, invalid("Offer", "the name has %d bytes; %d are possible", len(o.Name), maxLabel)
	case !t.DeviceID().Type.HostAccessible() && t.Device() == nil:
		return nil, core.Errorf(core.ErrDevice, "remote", "Offer", "the tensor lies on %v, which was not opened by this process: move it to an opened device", t.DeviceID())
	case o.Writable && t.ReadOnly():
		return nil, core.Errorf(core.ErrReadOnly, "remote", "Offer", "the tensor is read-only: a writable offer needs another one")
	case o.Writable && !t.Layout().IsContiguous():
		return nil, core.Errorf(core.ErrLayout, "remote", "Offer", "the tensor is not contiguous: a writable offer needs a contiguous one")
	case t.NumBytes() > maxBytes:
		return nil, core.Errorf(core.ErrLayout, "remote", "Offer", "the tensor has %d bytes; %d are possible", t.NumBytes(), int64(maxBytes))
	}
	x, err := t.Share()
	if err != nil {
		return nil, err
	}
	d := description{Description: Description{
		DType: x.DType(), Shape: x.Shape(), Padded: x.Padded(), Writable: o.Writable, Address: o.Address,
	}}
	if _, err := rand.Read(d.key[:]); err != nil {
		_ = x.Close()
		return nil, core.Errorf(core.ErrNotSupported, "remote", "Offer", "%v", err)
	}
	if o.Lease > 0 {
		d.Expires = time.Now().Add(o.Lease)
	}
	return s.open(&Offer{tensor: x, name: o.Name}, &d)
}

// open makes an offer of d, whose tensor is set. It owns the tensor, also on failure.
func (s *offers) open(f *Offer, d *description) (*Offer, error) {
	f.home, f.key, f.writable, f.descriptor = s, d.key, d.Writable, appendDescription(nil, d)
	f.done, f.busy = make(chan struct{}), make(chan struct{}, 1)
	if d.Writable {
		b, err := f.tensor.Buffer()
		if err != nil {
			_ = f.tensor.Close()
			return nil, err
		}
		f.origin = b.Origin()
	}
	if err := s.add(f); err != nil {
		_ = f.tensor.Close()
		return nil, err
	}
	if !d.Expires.IsZero() {
		f.mu.Lock()
		f.timer = time.AfterFunc(time.Until(d.Expires), func() {
			counted.leases.Add(1) // an offer that ends before stops the timer
			_ = f.Close()
		})
		f.mu.Unlock()
	}
	return f, nil
}

// Descriptor returns the bytes by which a peer finds the elements. Whoever has them, and may connect, can read the elements.
// The caller owns the result.
func (f *Offer) Descriptor() []byte {
	if f == nil {
		return nil
	}
	return append([]byte(nil), f.descriptor...)
}

// BytesRead returns the number of bytes of elements that were sent to peers because they have read the offer.
func (f *Offer) BytesRead() int64 {
	if f == nil {
		return 0
	}
	return f.read.Load()
}

// Done returns a channel that is closed when the offer has ended.
func (f *Offer) Done() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.done
}

// Close ends the offer: further requests are refused. Requests that have begun go on, and keep the memory. A second Close
// does nothing. Close always returns nil; the result makes Offer an io.Closer.
func (f *Offer) Close() error {
	if f == nil || f.home == nil {
		return nil
	}
	f.once.Do(func() {
		f.home.drop(f)
		f.mu.Lock()
		t := f.tensor
		f.tensor = nil
		if f.timer != nil {
			f.timer.Stop()
		}
		f.mu.Unlock()
		f.release(t)
		liveOffers.Add(-1)
		close(f.done)
	})
	return nil
}

// rows returns the tensor of a request, which the caller releases, or why there is none.
func (f *Offer) rows(q *request) (t *core.Tensor, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.tensor == nil {
		return nil, errGone
	}
	shape, err := rowsOf(f.tensor.DType(), f.tensor.Shape(), f.tensor.Padded(), q.first, q.count)
	if err != nil {
		return nil, err
	}
	m := meta{dtype: f.tensor.DType(), flags: f.tensor.Flags() & core.FlagSubBytePadded, shape: shape}
	if bytes, err := m.bytes(); err != nil || bytes != q.bytes {
		return nil, invalid("request", "%d bytes were asked for, and the rows have %d", q.bytes, bytes)
	}
	if q.count < 0 {
		t, err = f.tensor.Share()
	} else {
		t, err = f.tensor.Slice(0, q.first, q.first+q.count, 1)
	}
	if err == nil {
		countOverwritten(f.origin, 1)
	}
	return t, err
}

// release ends a use of the memory of the offer by t.
func (f *Offer) release(t *core.Tensor) {
	_ = t.Close()
	countOverwritten(f.origin, -1)
}

// rowsOf returns the shape of rows of a tensor; with count -1, that of the whole tensor.
func rowsOf(d core.DType, shape []int64, padded bool, first, count int64) ([]int64, error) {
	if count == -1 && first == 0 {
		return shape, nil
	}
	if len(shape) == 0 || first < 0 || count < 0 || first > shape[0] || count > shape[0]-first {
		return nil, core.Errorf(core.ErrLayout, "remote", "request", "rows %d to %d of a tensor of the shape %v were asked for", first, first+count, shape)
	}
	row, err := core.NewLayout(shape[1:]...)
	if err != nil {
		return nil, err
	}
	if d.SubByte() && !padded && row.NumElements()*d.ElementBits()%8 != 0 {
		return nil, core.Errorf(core.ErrLayout, "remote", "request", "rows of %d elements of the type %v share bytes: ask for the whole tensor", row.NumElements(), d)
	}
	return append([]int64{count}, shape[1:]...), nil
}
