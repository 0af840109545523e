package flight

import (
	"encoding/binary"
	"io"
	"sync"

	"github.com/dlx-go/dlx/core"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of all other messages
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// frame is a FlightData message. The generated type copies the elements at both ends; a frame refers to them.
type frame struct {
	descriptor []byte          // a FlightDescriptor, in the first message of a put
	header     []byte          // the description of a schema or batch; empty if there is neither
	body       mem.BufferSlice // a frame that is received or not sent yet owns a reference to each
	err        error           // why a received message is malformed
}

// The numbers of the fields of FlightData.
const (
	fieldDescriptor = 1
	fieldHeader     = 2
	fieldBody       = 1000
)

// free releases the body.
func (f *frame) free() {
	f.body.Free()
	f.body = nil
}

// codec encodes frames, and leaves other messages to gRPC's codec.
type codec struct{ encoding.CodecV2 }

// newCodec returns the codec, which has no state.
func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Marshal passes the body of a frame to gRPC, which releases it when it is written.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	var b []byte
	if f.descriptor != nil {
		b = protowire.AppendTag(b, fieldDescriptor, protowire.BytesType)
		b = protowire.AppendBytes(b, f.descriptor)
	}
	b = protowire.AppendTag(b, fieldHeader, protowire.BytesType)
	b = protowire.AppendBytes(b, f.header)
	if n := f.body.Len(); n != 0 {
		b = protowire.AppendTag(b, fieldBody, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(n))
	}
	out := append(mem.BufferSlice{mem.SliceBuffer(b)}, f.body...)
	f.body = nil
	return out, nil
}

// Unmarshal reads a frame. An error of the message is put into the frame, since gRPC would make a text of it.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	f.free()
	*f = frame{}
	if err := f.read(&cursor{slices: data, left: data.Len()}); err != nil {
		f.free()
		f.err = fail(because(core.ErrInvalid, err), "Receive", "a message is malformed")
	}
	return nil
}

// read reads the fields. As always in Protocol Buffers, the last of several equal fields counts.
func (f *frame) read(c *cursor) error {
	for c.left > 0 {
		tag, err := binary.ReadUvarint(c)
		if err != nil {
			return err
		}
		number, wire := tag>>3, protowire.Type(tag&7)
		n := uint64(0)
		switch wire {
		case protowire.VarintType:
			_, err = binary.ReadUvarint(c)
		case protowire.Fixed32Type:
			n = 4
		case protowire.Fixed64Type:
			n = 8
		case protowire.BytesType:
			n, err = binary.ReadUvarint(c)
		default:
			err = errWire
		}
		if err != nil {
			return err
		}
		if n > uint64(c.left) {
			return io.ErrUnexpectedEOF
		}
		size := int(n)
		switch {
		case wire != protowire.BytesType:
			c.skip(size)
		case number == fieldBody:
			f.body.Free()
			f.body = c.share(size)
		case number != fieldHeader && number != fieldDescriptor:
			c.skip(size)
		case size > maxHeader:
			return errLong
		case number == fieldHeader:
			f.header = c.take(size)
		default:
			f.descriptor = c.take(size)
		}
	}
	return nil
}

type frameError string

func (e frameError) Error() string { return string(e) }

const (
	errWire frameError = "a field has an unknown encoding"
	errLong frameError = "the description of the data has more than 1 MiB"
)

// cursor reads buffers one after the other. Callers check that left is enough.
type cursor struct {
	slices mem.BufferSlice
	at     int // in the first of them
	left   int // bytes in all of them
}

var _ io.ByteReader = (*cursor)(nil)

// each calls use for the next n bytes, a piece of one buffer at a time.
func (c *cursor) each(n int, use func(b mem.Buffer, from, to int)) {
	c.left -= n
	for n > 0 {
		b := c.slices[0]
		m := min(n, b.Len()-c.at)
		if m > 0 {
			use(b, c.at, c.at+m)
		}
		n -= m
		if c.at += m; c.at == b.Len() {
			c.slices, c.at = c.slices[1:], 0
		}
	}
}

func (c *cursor) skip(n int) { c.each(n, func(mem.Buffer, int, int) {}) }

// take returns a copy of n bytes.
func (c *cursor) take(n int) []byte {
	p := make([]byte, 0, n)
	c.each(n, func(b mem.Buffer, from, to int) { p = append(p, b.ReadOnlyData()[from:to]...) })
	return p
}

// share returns references to n bytes.
func (c *cursor) share(n int) mem.BufferSlice {
	s := make(mem.BufferSlice, 0, len(c.slices))
	c.each(n, func(b mem.Buffer, from, to int) { s = append(s, b.Slice(from, to)) })
	return s
}

// copyTo copies the next bytes to p.
func (c *cursor) copyTo(p []byte) {
	c.each(len(p), func(b mem.Buffer, from, to int) { p = p[copy(p, b.ReadOnlyData()[from:to]):] })
}

func (c *cursor) ReadByte() (byte, error) {
	if c.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	var x byte
	c.each(1, func(b mem.Buffer, from, _ int) { x = b.ReadOnlyData()[from] })
	return x, nil
}

// bufferPool has buffers for batches that are sent. gRPC puts them back when they are written. It forgets some whose
// call fails; the garbage collector then frees them.
type bufferPool struct{ pool sync.Pool }

var _ mem.BufferPool = (*bufferPool)(nil)

// Get returns a buffer of n bytes, whose content is arbitrary.
func (p *bufferPool) Get(n int) *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok && cap(*b) >= n {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, max(n, 4096)) // aligned for all elements; gRPC does not give smaller ones back
	return &b
}

// Put takes a buffer back.
func (p *bufferPool) Put(b *[]byte) { p.pool.Put(b) }

// framePool has the memory into which gRPC reads. Its own pools clear their buffers each time, which is a tenth of the
// processor time of a Get.
type framePool struct{ frames sync.Pool }

var _ mem.BufferPool = (*framePool)(nil)

// frameSize is the size of the largest frame of gRPC.
const frameSize = 16 << 10

// Get returns a buffer of n bytes, whose content is arbitrary. It has at most twice as many: what a peer makes gRPC hold
// does not grow if the peer sends small frames.
func (p *framePool) Get(n int) *[]byte {
	if n <= frameSize/2 {
		b := make([]byte, n)
		return &b
	}
	if n <= frameSize {
		if b, ok := p.frames.Get().(*[]byte); ok {
			*b = (*b)[:n]
			return b
		}
	}
	b := make([]byte, n, max(n, frameSize))
	return &b
}

// Put takes a buffer back.
func (p *framePool) Put(b *[]byte) {
	if cap(*b) == frameSize {
		p.frames.Put(b)
	}
}
