package remote

import (
	"context"
	"fmt"
	"strings"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// Source makes offers of a peer a source of [tensorfile.LoadFrom], which takes them onto a device. [NewSource] makes it. It
// is safe for concurrent use.
type Source struct {
	// Verify compares each tensor, or the rows that were fetched of it, with the checksum that the peer computes; see
	// [Conn.Checksum]. Fetch then returns a *ChangedError for a tensor that differs. Both sides read all elements once more.
	Verify bool

	conn   *Conn
	infos  []tensorfile.Info
	byName map[string][]byte // the descriptors
}

var _ tensorfile.Source = (*Source)(nil)

// ChangedError is the error of a tensor whose elements are not those that the peer has. It is a core.ErrInvalid.
type ChangedError struct{ Name string }

// Error names the tensor.
func (e *ChangedError) Error() string {
	if e == nil {
		return "a tensor was changed on the way"
	}
	return fmt.Sprintf("tensor %q differs from that of the peer: it was changed on the way, or the peer has written it meanwhile", e.Name)
}

// Is reports whether target is core.ErrInvalid.
func (e *ChangedError) Is(target error) bool { return target == core.ErrInvalid }

// NewSource returns a source of the offers, which [Conn.List] has returned, or whose descriptors have come by other means.
// The connection stays with the caller, who closes it after the source was used. NewSource returns core.ErrInvalid if the
// connection is nil, a descriptor is none, or a name is there twice, and core.ErrVersion for a descriptor of another version.
func NewSource(c *Conn, offers []Listed) (*Source, error) {
	if c == nil || c.raw == nil {
		return nil, noConn("NewSource")
	}
	s := &Source{conn: c, byName: make(map[string][]byte, len(offers))}
	for _, o := range offers {
		d, bytes, err := readDescription(o.Descriptor)
		if err != nil {
			return nil, err
		}
		if s.byName[o.Name] != nil {
			return nil, invalid("NewSource", "the offers have the name %q twice", o.Name)
		}
		s.byName[o.Name] = append([]byte(nil), o.Descriptor...)
		s.infos = append(s.infos, tensorfile.Info{Name: o.Name, DType: d.DType, Shape: d.Shape, Bytes: bytes})
	}
	return s, nil
}

// Infos returns the offers.
func (s *Source) Infos(context.Context) ([]tensorfile.Info, error) {
	if s == nil || s.conn == nil {
		return nil, noConn("Infos")
	}
	return append([]tensorfile.Info(nil), s.infos...), nil
}

// Fetch is [Conn.FetchRows] for the offer with the name. The caller closes the result. Fetch also returns core.ErrInvalid if
// there is no such offer, and a [*ChangedError]; see Verify.
func (s *Source) Fetch(ctx context.Context, name string, first, end int64, device core.Device) (*core.Tensor, error) {
	if s == nil || s.conn == nil {
		return nil, noConn("Fetch")
	}
	descriptor := s.byName[name]
	if descriptor == nil {
		return nil, invalid("Fetch", "there is no offer with the name %q", name)
	}
	t, _, err := s.conn.FetchRows(ctx, descriptor, first, end, device)
	if err != nil || !s.Verify {
		return t, err
	}
	if err := s.check(ctx, name, first, end, t); err != nil {
		_ = t.Close()
		return nil, err
	}
	return t, nil
}

// check compares fetched rows with those of the peer.
func (s *Source) check(ctx context.Context, name string, first, end int64, t *core.Tensor) error {
	want, err := s.conn.Checksum(ctx, s.byName[name], first, end)
	if err != nil {
		return err
	}
	if got, err := Sum(ctx, t); err != nil || got == want {
		return err
	}
	return &ChangedError{name}
}

// Origin returns the address of the peer as a URL, such as "ucx://10.0.0.7:7470", and the transports that UCX has chosen.
func (s *Source) Origin() (name, how string) {
	if s == nil || s.conn == nil {
		return "", ""
	}
	return "ucx://" + s.conn.Peer().String(), "by " + strings.Join(s.conn.Transports(), " and ")
}
