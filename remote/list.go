package remote

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// The peer cannot fill the memory by a list.
const maxListed = 1 << 20 // offers

var maxListBytes = 256 << 20 // of the names and descriptors; tests change it

const entrySize = 4 // bytes of an entry of a list before the name

// Listed is an offer that has a name.
type Listed struct {
	Name       string
	Descriptor []byte // for Conn.Fetch; Describe reads it
}

// List returns the offers of the peer that have names, in the order in which they were made: those of the connection, and
// those of the listener that the peer has accepted it with. The names and the descriptors come through the control
// connection. An offer that is made or ends meanwhile may be missing. The caller owns the result. List returns
//
//   - core.ErrNotSupported if the version of dlx that the peer uses has no lists;
//   - core.ErrOutOfMemory if there are more than a million offers, or their names and descriptors have more than 256 MiB;
//   - ctx's error, and the [*ConnError] of a connection that has ended.
func (c *Conn) List(ctx context.Context) ([]Listed, error) {
	if c == nil || c.raw == nil {
		return nil, noConn("List")
	}
	var list []Listed
	bytes := 0
	for after := uint64(0); ; {
		q := request{}
		b, err := c.askFor(ctx, &q, controlListed, controlList, func(b []byte) []byte {
			return le.AppendUint64(le.AppendUint64(b, q.id), after)
		})
		if err != nil {
			return nil, err
		}
		more, next, err := readList(b)
		if err == nil && next != 0 && (next <= after || len(more) == 0) { // it would never end
			err = violation("a list of offers goes on after number %d, and had got to %d", next, after)
		}
		if err != nil {
			c.fail(err)
			return nil, c.Err()
		}
		if list, bytes = append(list, more...), bytes+len(b); len(list) > maxListed || bytes > maxListBytes {
			return nil, core.Errorf(core.ErrOutOfMemory, "remote", "List", "the peer has more than %d offers, or their names and descriptors have more than %d bytes", maxListed, maxListBytes)
		}
		if next == 0 {
			return list, nil
		}
		after = next
	}
}

// askFor makes a request that has one answer of the kind wants, and returns what follows the number in the answer.
func (c *Conn) askFor(ctx context.Context, q *request, wants, k control, payload func([]byte) []byte) ([]byte, error) {
	if c.peer.features&featureList == 0 {
		return nil, core.Errorf(core.ErrNotSupported, "remote", "request", "the peer uses an older dlx, which does not list offers: use the same version of dlx on both sides")
	}
	a, err := c.ask(ctx, q, nil)
	if err != nil {
		return nil, err
	}
	defer c.forget(q)
	c.mu.Lock()
	a.wants = wants
	c.mu.Unlock()
	if err := c.tell(ctx, k, payload); err != nil {
		return nil, err
	}
	if err := c.answered(ctx, a, func() bool { return a.reply != nil }); err != nil {
		return nil, err
	}
	return a.reply, nil // nobody changes it
}

// reply handles the answer to List or Checksum. A request that was given up has no answer.
func (c *Conn) reply(k control, payload []byte) error {
	if len(payload) < 8 {
		return violation("an answer has %d bytes", len(payload))
	}
	id := le.Uint64(payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == 0 || id > c.requests {
		return violation("the peer answers request %d, and there were %d", id, c.requests)
	}
	a := c.asking[id]
	if a == nil {
		return nil
	}
	if a.wants != k || a.reply != nil {
		return violation("the answer %d does not fit to request %d", k, id)
	}
	a.reply = append([]byte{}, payload[8:]...)
	c.notify()
	return nil
}

// serveList answers which offers have names.
func (c *Conn) serveList(payload []byte) error {
	if len(payload) != 16 {
		return violation("a question for offers has %d bytes, and needs 16", len(payload))
	}
	id, after := le.Uint64(payload), le.Uint64(payload[8:])
	own, shared := c.own.after(after), c.shared.after(after)
	return c.tell(c.life, controlListed, func(b []byte) []byte { return appendList(le.AppendUint64(b, id), own, shared) })
}

// after returns offers that have names, from the first number after n on: as many as fit into a message, or more.
func (s *offers) after(n uint64) []*Offer {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := s.place(n + 1)
	const most = maxControl / (entrySize + descriptorSize + metaSize)
	return append([]*Offer(nil), s.listed[i:min(i+most, len(s.listed))]...)
}

// appendList appends the number after which the list goes on, 0 at its end, and as many offers as fit into a control
// message, in the order of their numbers.
func appendList(b []byte, x, y []*Offer) []byte {
	at := len(b)
	b = le.AppendUint64(b, 0)
	for last := uint64(0); len(x)+len(y) > 0; {
		from := &x
		if len(x) == 0 || len(y) > 0 && y[0].number < x[0].number {
			from = &y
		}
		o := (*from)[0]
		if len(b)+entrySize+len(o.name)+len(o.descriptor) > maxControl {
			le.PutUint64(b[at:], last)
			break
		}
		*from = (*from)[1:]
		b, last = appendListed(b, Listed{o.name, o.descriptor}), o.number
	}
	return b
}

func appendListed(b []byte, e Listed) []byte {
	b = le.AppendUint16(b, uint16(len(e.Name)))
	b = le.AppendUint16(b, uint16(len(e.Descriptor)))
	return append(append(b, e.Name...), e.Descriptor...)
}

// readList reads what appendList has written. The result is on the memory of b.
func readList(b []byte) (list []Listed, next uint64, err error) {
	if len(b) < 8 {
		return nil, 0, violation("a list of offers has %d bytes", len(b))
	}
	next = le.Uint64(b)
	for b = b[8:]; len(b) > 0; {
		if len(b) < entrySize {
			return nil, 0, violation("an entry of a list has %d bytes", len(b))
		}
		n, d := int(le.Uint16(b)), int(le.Uint16(b[2:]))
		if n == 0 || n > maxLabel || entrySize+n+d > len(b) {
			return nil, 0, violation("an entry of a list has a name of %d and a descriptor of %d bytes, and %d are left", n, d, len(b))
		}
		e := Listed{Name: string(b[entrySize : entrySize+n]), Descriptor: b[entrySize+n : entrySize+n+d : entrySize+n+d]}
		if _, _, err := readDescription(e.Descriptor); err != nil {
			return nil, 0, violation("an entry of a list: %v", err)
		}
		list, b = append(list, e), b[entrySize+n+d:]
	}
	return list, next, nil
}
