package flight

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// maxName bounds the bytes of a name.
const maxName = 1024

// ticket says which rows of which tensor are meant.
type ticket struct {
	Name string  `json:"name"`
	Rows []int64 `json:"rows,omitempty"` // the first one and the one after the last; nil for all
}

// bytes returns the ticket as Flight carries it.
func (t ticket) bytes() []byte {
	b, _ := json.Marshal(t) // cannot fail
	return b
}

// readTicket reads a ticket of another process.
func readTicket(call string, b []byte) (ticket, error) {
	var t ticket
	if len(b) > 8*maxName {
		return t, fail(core.ErrInvalid, call, "the ticket has %d bytes", len(b))
	}
	if err := strictjson.UnmarshalKnown(b, &t); err != nil {
		return t, fail(because(core.ErrInvalid, err), call, `the ticket is not JSON such as {"name": "weights", "rows": [0, 10]}`)
	}
	if t.Rows != nil && len(t.Rows) != 2 {
		return t, fail(core.ErrInvalid, call, "the ticket has %d numbers for the rows: the first row and the one after the last are needed", len(t.Rows))
	}
	return t, checkName(call, t.Name)
}

func checkName(call, name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return fail(core.ErrInvalid, call, "the name has %d bytes: a name is UTF-8 of 1 to %d bytes", len(name), maxName)
	}
	return nil
}

// rowsOf returns the rows of a tensor that the ticket is for, which the caller closes.
func (t ticket) rowsOf(call string, x *core.Tensor) (*core.Tensor, error) {
	if t.Rows == nil {
		return x.Share()
	}
	if x.Rank() == 0 {
		return nil, fail(core.ErrLayout, call, "tensor %q has no axis, so that it has no rows to choose", t.Name)
	}
	if start, stop, n := t.Rows[0], t.Rows[1], x.Shape()[0]; start < 0 || start > stop || stop > n {
		return nil, fail(core.ErrLayout, call, "rows %d to %d of tensor %q were asked for, which has %d", start, stop, t.Name, n)
	}
	return x.Slice(0, t.Rows[0], t.Rows[1], 1)
}

// descriptor returns the descriptor of a tensor.
func descriptor(name string) *flight.FlightDescriptor {
	return &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{name}}
}

// nameOf returns the name in a descriptor of another process.
func nameOf(call string, d *flight.FlightDescriptor) (string, error) {
	if d == nil || d.Type != flight.DescriptorPATH || len(d.Path) != 1 {
		return "", fail(core.ErrInvalid, call, "a descriptor must be a path with one element, the name of a tensor")
	}
	return d.Path[0], checkName(call, d.Path[0])
}

// Info describes a tensor.
type Info struct {
	Name  string     `json:"name"`
	DType core.DType `json:"dtype"`
	Shape []int64    `json:"shape"` // the first extent is -1 if the sender does not tell it
	Bytes int64      `json:"bytes"` // of the elements; -1 if the sender does not tell it
}

// info describes a tensor of a kind.
func (k *kind) info(name string) Info {
	i := Info{Name: name, DType: k.dtype, Shape: k.shape, Bytes: -1}
	if size, ok := k.bytes(k.rows); ok {
		i.Bytes = size
	}
	return i
}
