package flight

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/dlx-go/dlx/core"
	"google.golang.org/protobuf/proto"
)

// h2Frame returns a frame of HTTP/2.
func h2Frame(typ, flags byte, stream uint32, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload)<<8)|uint32(typ))
	b = binary.BigEndian.AppendUint32(append(b, flags), stream)
	return append(b, payload...)
}

// doGet returns what a client of HTTP/2 sends to begin a DoGet with windows for all of the answer.
func doGet(t *testing.T, name string) []byte {
	t.Helper()
	message, err := proto.Marshal(&flight.Ticket{Ticket: ticket{Name: name}.bytes()})
	if err != nil {
		t.Fatal(err)
	}
	var headers []byte
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/arrow.flight.protocol.FlightService/DoGet"},
		{":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		headers = append(headers, 0, byte(len(h[0]))) // a literal
		headers = append(append(append(headers, h[0]...), byte(len(h[1]))), h[1]...)
	}
	const window = 1 << 30
	b := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	b = append(b, h2Frame(4, 0, 0, binary.BigEndian.AppendUint32([]byte{0, 4}, window))...) // SETTINGS_INITIAL_WINDOW_SIZE
	b = append(b, h2Frame(8, 0, 0, binary.BigEndian.AppendUint32(nil, window))...)          // WINDOW_UPDATE
	b = append(b, h2Frame(1, 4, 1, headers)...)                                             // HEADERS, END_HEADERS
	return append(b, h2Frame(0, 1, 1, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))...)
}

// A client that reads nothing loses its connection, although it goes on sending.
func TestAClientThatReadsNothing(t *testing.T) {
	s, err := NewServer(ServerOptions{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.connections.patience = 300 * time.Millisecond
	if err := s.Offer("large", patterned(t, core.TypeInt8, 64<<20)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	waitFor(t, 1, s.connections.count)
	if _, err := c.Write(doGet(t, "large")); err != nil {
		t.Fatal(err)
	}
	if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	update := h2Frame(8, 0, 0, []byte{0, 0, 0, 1})
	waitFor(t, 0, func() int64 {
		_, _ = c.Write(update) // fails when the server has closed the connection
		return s.connections.count()
	})
	if n, err := io.Copy(io.Discard, c); n < 64<<10 {
		t.Errorf("%d bytes of the answer have come, so the call had not begun: %v", n, err)
	}
	waitFor(t, 0, s.calls.Load)
}

// scripted is a connection whose writes take so many bytes each, and fail for want of time unless they take all.
type scripted struct {
	net.Conn
	takes  []int
	closed bool
}

func (c *scripted) Close() error {
	c.closed = true
	return nil
}

func (c *scripted) SetWriteDeadline(time.Time) error { return nil }

func (c *scripted) Write(b []byte) (int, error) {
	n := c.takes[0]
	c.takes = c.takes[1:]
	if n < len(b) {
		return n, os.ErrDeadlineExceeded
	}
	return n, nil
}

// A peer that takes a little now and then keeps its connection.
func TestSlowPeers(t *testing.T) {
	for _, c := range []struct {
		takes []int
		n     int
		err   error
	}{
		{[]int{10}, 10, nil},
		{[]int{0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 7}, 10, nil},
		{[]int{0, 0, 0, 0}, 0, os.ErrDeadlineExceeded},
		{[]int{3, 0, 0, 0, 0}, 3, os.ErrDeadlineExceeded},
	} {
		x := &scripted{takes: c.takes}
		n, err := (&counted{Conn: x, all: new(connections)}).Write(make([]byte, 10))
		if n != c.n || err != c.err || len(x.takes) != 0 || x.closed != (err != nil) {
			t.Errorf("%v: %d bytes, %v; %d writes are left; closed: %v", c.takes, n, err, len(x.takes), x.closed)
		}
	}
}
