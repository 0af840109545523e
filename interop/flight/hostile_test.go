package flight

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/endian"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	dlxarrow "github.com/dlx-go/dlx/interop/arrow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// sentFrames returns the frames of a tensor. The bodies are not pooled.
func sentFrames(t testing.TB, x *core.Tensor, batch int64) []*frame {
	t.Helper()
	var frames []*frame
	s := sender{call: "test", batch: batch, limit: math.MaxInt64, pool: new(bufferPool)}
	if _, err := s.send(context.Background(), x, nil, func(f *frame) error {
		body := mem.SliceBuffer(f.body.Materialize())
		f.free()
		if len(body) != 0 {
			f.body = mem.BufferSlice{body}
		}
		frames = append(frames, f)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return frames
}

// receiveFrames receives frames with a budget, of which nothing may be left.
func receiveFrames(t testing.TB, d core.Device, limit int64, frames []*frame) (*core.Tensor, error) {
	t.Helper()
	var budget int64
	r := receiver{call: "test", device: d, limit: limit, reserve: func(n int64) error {
		if budget+n > 4*limit {
			return fail(core.ErrOutOfMemory, "test", "more than the budget")
		}
		budget += n
		return nil
	}}
	next := 0
	x, err := r.receive(context.Background(), unknown, func(f *frame) error {
		if next == len(frames) {
			return io.EOF
		}
		*f = *frames[next]
		next++
		return nil
	})
	r.drop()
	if budget != 0 {
		t.Errorf("%d bytes of the budget are left", budget)
	}
	return x, err
}

// schemaHeader returns the description of a schema.
func schemaHeader(s *arrow.Schema) []byte {
	p := ipc.GetSchemaPayload(s, memory.DefaultAllocator)
	defer p.Release()
	meta := p.Meta()
	defer meta.Release()
	return slices.Clone(meta.Bytes())
}

// typed returns a schema with one column of tensors, and perhaps a shape.
func typed(t testing.TB, value arrow.DataType, row []int64, shape string) *arrow.Schema {
	t.Helper()
	typ, err := dlxarrow.NewFixedShapeType(value, row, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var m *arrow.Metadata
	if shape != "" {
		x := arrow.NewMetadata([]string{"other", shapeKey}, []string{"1", shape})
		m = &x
	}
	return arrow.NewSchema([]arrow.Field{{Name: "x", Type: typ}}, m)
}

// carried returns a schema whose elements are said to be of another type.
func carried(t testing.TB, value arrow.DataType, dtype string) *arrow.Schema {
	t.Helper()
	m := arrow.NewMetadata([]string{dtypeKey}, []string{dtype})
	return arrow.NewSchema(typed(t, value, []int64{2, 3}, "").Fields(), &m)
}

// raw returns a schema whose column claims to be a tensor.
func raw(storage arrow.DataType, name, parameters string, more ...arrow.Field) *arrow.Schema {
	m := arrow.NewMetadata([]string{"ARROW:extension:name", "ARROW:extension:metadata"}, []string{name, parameters})
	return arrow.NewSchema(append([]arrow.Field{{Name: "x", Type: storage, Metadata: m}}, more...), nil)
}

func TestHostileSchemas(t *testing.T) {
	const name = "arrow.fixed_shape_tensor"
	i32 := arrow.PrimitiveTypes.Int32
	list := func(n int32, t arrow.DataType) arrow.DataType { return arrow.FixedSizeListOf(n, t) }
	for what, c := range map[string]struct {
		schema *arrow.Schema
		want   error
	}{
		"sound":                                {typed(t, i32, []int64{2, 3}, "[7,2,3]"), nil},
		"sound, without a shape":               {raw(list(6, i32), name, `{"shape":[2,3]}`), nil},
		"no column":                            {arrow.NewSchema(nil, nil), core.ErrInvalid},
		"two columns":                          {raw(list(6, i32), name, `{"shape":[2,3]}`, arrow.Field{Name: "y", Type: i32}), core.ErrInvalid},
		"a number":                             {raw(i32, name, `{"shape":[]}`), core.ErrInvalid},
		"a list of any size":                   {raw(arrow.ListOf(i32), name, `{"shape":[]}`), core.ErrInvalid},
		"another extension":                    {raw(list(6, i32), "arrow.other", `{"shape":[2,3]}`), core.ErrInvalid},
		"a dictionary":                         {raw(list(6, &arrow.DictionaryType{IndexType: i32, ValueType: i32}), name, `{"shape":[6]}`), core.ErrInvalid},
		"text":                                 {raw(list(6, arrow.BinaryTypes.String), name, `{"shape":[2,3]}`), core.ErrDType},
		"bools":                                {raw(list(6, arrow.FixedWidthTypes.Boolean), name, `{"shape":[2,3]}`), core.ErrDType},
		"bools as numbers of 32 bits":          {carried(t, i32, "bool"), core.ErrDType},
		"numbers as another type":              {carried(t, arrow.PrimitiveTypes.Uint8, "float8_e4m3"), core.ErrDType},
		"sound, bools":                         {carried(t, arrow.PrimitiveTypes.Uint8, "bool"), nil},
		"dates":                                {raw(list(6, arrow.FixedWidthTypes.Date32), name, `{"shape":[2,3]}`), core.ErrDType},
		"lists in lists":                       {raw(list(2, list(3, i32)), name, `{"shape":[2,3]}`), core.ErrInvalid},
		"another number of elements":           {raw(list(5, i32), name, `{"shape":[2,3]}`), core.ErrInvalid},
		"a negative extent":                    {raw(list(6, i32), name, `{"shape":[-2,-3]}`), core.ErrInvalid},
		"a huge extent":                        {raw(list(6, i32), name, `{"shape":[9223372036854775807,2]}`), core.ErrInvalid},
		"a wrong permutation":                  {raw(list(6, i32), name, `{"shape":[2,3],"permutation":[0,0]}`), core.ErrInvalid},
		"no parameters":                        {raw(list(6, i32), name, ``), core.ErrInvalid},
		"a shape of other rows":                {typed(t, i32, []int64{2, 3}, "[7,3,2]"), core.ErrInvalid},
		"a shape that is a number":             {typed(t, i32, []int64{2, 3}, "7"), core.ErrInvalid},
		"a shape that is null":                 {typed(t, i32, []int64{2, 3}, "null"), core.ErrInvalid},
		"a shape with a fraction":              {typed(t, i32, []int64{2, 3}, "[1.5,2,3]"), core.ErrInvalid},
		"a negative number of rows":            {typed(t, i32, []int64{2, 3}, "[-7,2,3]"), core.ErrLayout},
		"an overflow":                          {typed(t, i32, []int64{2, 3}, "[9223372036854775807,2,3]"), core.ErrLayout},
		"an overflow in bytes":                 {typed(t, i32, []int64{2, 3}, "[1537228672809129300,2,3]"), core.ErrLayout},
		"more rows than the limit":             {typed(t, i32, []int64{2, 3}, "[1000000000000,2,3]"), core.ErrOutOfMemory},
		"a row larger than the limit":          {typed(t, i32, []int64{1 << 30}, ""), core.ErrOutOfMemory},
		"a shape without axes":                 {typed(t, i32, []int64{2, 3}, "[]"), core.ErrInvalid},
		"a shape with an extent of 0":          {typed(t, i32, []int64{2, 3}, "[7,0,3]"), core.ErrInvalid},
		"the shape of too many axes":           {typed(t, i32, nil, "["+string(bytes.Repeat([]byte("1,"), 100))+"1]"), core.ErrLayout},
		"the highest byte of an element first": {arrow.NewSchemaWithEndian(typed(t, i32, []int64{6}, "").Fields(), nil, endian.BigEndian), core.ErrNotSupported},
	} {
		d := openCPU(t)
		header := schemaHeader(c.schema)
		_, err := readSchema("test", header)
		x, all := receiveFrames(t, d, 1<<20, []*frame{{header: header}})
		if x != nil {
			_ = x.Close()
		}
		switch {
		case c.want == nil && err != nil:
			t.Errorf("%s: %v", what, err)
		case c.want != nil:
			coretest.WantError(t, all, c.want, what)
		}
	}
}

func TestHostileBatches(t *testing.T) {
	d := openCPU(t)
	sound := sentFrames(t, patterned(t, core.TypeInt32, 8, 2, 3), 4*24) // two batches
	longer := sentFrames(t, patterned(t, core.TypeInt32, 9, 2, 3), 4*24)
	// changed returns the frames with another number in the description of the first batch.
	changed := func(old, value int64, nth int) []*frame {
		f := *sound[1]
		f.header = slices.Clone(f.header)
		at := -1
		for range nth {
			next := bytes.Index(f.header[at+1:], binary.LittleEndian.AppendUint64(nil, uint64(old)))
			if next < 0 {
				t.Fatalf("%d is not there", old)
			}
			at += 1 + next
		}
		binary.LittleEndian.PutUint64(f.header[at:], uint64(value))
		return []*frame{sound[0], &f, sound[2]}
	}
	short := *sound[1]
	short.body = mem.BufferSlice{short.body[0].Slice(0, 88)}
	for what, c := range map[string]struct {
		frames []*frame
		want   error
	}{
		"nothing":                            {nil, core.ErrInvalid},
		"only a batch":                       {sound[1:], core.ErrInvalid},
		"two schemas":                        {[]*frame{sound[0], sound[0]}, core.ErrInvalid},
		"one batch is missing":               {sound[:2], core.ErrInvalid},
		"a batch too many":                   {append(slices.Clone(sound), longer[3]), core.ErrInvalid},
		"a short body":                       {[]*frame{sound[0], &short, sound[2]}, core.ErrInvalid},
		"a body without header":              {[]*frame{sound[0], {body: sound[1].body}}, core.ErrInvalid},
		"an empty header":                    {[]*frame{{}, sound[0]}, core.ErrInvalid},
		"a malformed message":                {[]*frame{sound[0], {err: fail(core.ErrInvalid, "test", "malformed")}}, core.ErrInvalid},
		"negative rows":                      {changed(4, -4, 1), core.ErrInvalid},
		"huge rows":                          {changed(4, math.MaxInt64, 1), core.ErrInvalid},
		"more elements than rows":            {changed(24, 25, 1), core.ErrInvalid},
		"a huge body":                        {changed(96, math.MaxInt64, 1), core.ErrInvalid},
		"a huge buffer":                      {changed(96, math.MaxInt64, 2), core.ErrInvalid},
		"a negative buffer":                  {changed(96, -96, 2), core.ErrInvalid},
		"a header of one byte":               {[]*frame{sound[0], {header: []byte{1}}}, core.ErrInvalid},
		"a header of many bytes":             {[]*frame{sound[0], {header: make([]byte, maxHeader+1)}}, core.ErrInvalid},
		"a header of many bytes of a schema": {[]*frame{{header: make([]byte, maxHeader+1)}}, core.ErrInvalid},
	} {
		x, err := receiveFrames(t, d, 1<<20, c.frames)
		coretest.WantError(t, err, c.want, what)
		if x != nil {
			t.Errorf("%s: there is a tensor, too", what)
		}
	}
	x, err := receiveFrames(t, d, 1<<20, slices.Insert(slices.Clone(sound), 1, &frame{}))
	if err != nil {
		t.Fatal("metadata between batches:", err)
	}
	_ = x.Close()
}

// A tensor whose number of rows is not told grows within the limit.
func TestUnknownRows(t *testing.T) {
	for _, d := range []core.Device{openCPU(t), openRemote(t)} {
		want := patterned(t, core.TypeUint16, 20, 3)
		frames := sentFrames(t, want, 64)
		frames[0].header = schemaHeader(typed(t, arrow.PrimitiveTypes.Uint16, []int64{3}, ""))
		got, err := receiveFrames(t, d, 120, frames)
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, got, want)
		_ = got.Close()
		_, err = receiveFrames(t, d, 119, frames)
		coretest.WantError(t, err, core.ErrOutOfMemory, "more than the limit")
	}
}

// fuzzSeeds adds what is sound, and what is cut or changed.
func fuzzSeeds(f *testing.F, add func(data []byte)) {
	f.Helper()
	k, err := newKind("test", core.TypeFloat32, []int64{4, 2, 3})
	if err != nil {
		f.Fatal(err)
	}
	frames := sentFrames(f, patterned(f, core.TypeFloat32, 4, 2, 3), 1000)
	bools, err := newKind("test", core.TypeBool, []int64{4, 2, 3})
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range [][]byte{k.header(), k.serialized(), frames[1].header, bools.header()} {
		add(b)
		add(b[:len(b)/2])
	}
}

// onePair returns the description of a schema whose metadata have n entries, which all refer to the same key.
func onePair(t testing.TB, n int, key string) []byte {
	t.Helper()
	keys := make([]string, n)
	keys[0] = key
	m := arrow.NewMetadata(keys, make([]string, n))
	data := schemaHeader(arrow.NewSchema(typed(t, arrow.PrimitiveTypes.Int32, []int64{2, 3}, "").Fields(), &m))
	f, schema, err := readMessage("test", data, headerSchema, "schema")
	if err != nil {
		t.Fatal(err)
	}
	at, _ := schema.vector(2, 4)
	pair := f.follow(at)
	for i := range n {
		binary.LittleEndian.PutUint32(data[at+4*i:], uint32(pair-(at+4*i)))
	}
	if f.broken {
		t.Fatal("the message is not as expected")
	}
	return data
}

// allocated returns how many bytes use allocates: the least of three times, since others of the process allocate, too.
func allocated(use func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		use()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// A key that many entries refer to is not copied for each of them.
func TestEntriesWithTheSameKey(t *testing.T) {
	for n, want := range map[int]error{maxPairs: nil, maxPairs + 1: core.ErrInvalid, 3 * maxPairs: core.ErrInvalid} {
		data := onePair(t, n, strings.Repeat("k", 400<<10))
		var err error
		used := allocated(func() { _, err = readSchema("test", data) })
		if !errors.Is(err, want) {
			t.Errorf("%d entries: %v", n, err)
		}
		if used > uint64(len(data)) {
			t.Errorf("%d entries: %d bytes were allocated for a message of %d", n, used, len(data))
		}
	}
}

// mostAllocated bounds what is allocated to read a description of n bytes. The JSON in it takes most.
func mostAllocated(n int) uint64 { return 64<<10 + 64*uint64(n) }

// Any description of a schema or batch is refused, or says something that is possible.
func FuzzHeaders(f *testing.F) {
	fuzzSeeds(f, func(data []byte) { f.Add(data, int64(96)) })
	f.Add(onePair(f, 200, strings.Repeat("k", 2000)), int64(96))
	f.Add(schemaHeader(raw(arrow.FixedSizeListOf(1, arrow.PrimitiveTypes.Int32), "arrow.fixed_shape_tensor",
		`{"shape":[1],"permutation":[0`+strings.Repeat(",0", 1000)+`]}`)), int64(96))
	k, err := newKind("test", core.TypeFloat32, []int64{4, 2, 3})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, size int64) {
		for _, read := range []func(string, []byte) (kind, error){readSchema, readInfoSchema} {
			var got kind
			var err error
			if used := allocated(func() { got, err = read("test", data) }); used > mostAllocated(len(data)) {
				t.Fatalf("%d bytes were allocated for a message of %d", used, len(data))
			}
			if err != nil {
				continue
			}
			if got.rowBytes() < 1 || got.rows < unknown {
				t.Fatalf("%+v", got)
			}
			if got.rows != unknown {
				if l, err := core.NewLayout(got.shape...); err != nil || l.NumElements() != got.rows*got.rowElements() {
					t.Fatalf("%+v: %v", got, err)
				}
			}
		}
		b, err := k.readBatch("test", data, size)
		if err == nil && (b.rows < 0 || b.bytes != b.rows*24 || b.offset < 0 || b.offset+b.bytes > size) {
			t.Fatalf("%+v in %d bytes", b, size)
		}
	})
}

// A buffer for a frame has at most twice the bytes of the frame, and buffers of large frames are used again.
func TestBuffersOfFrames(t *testing.T) {
	p := new(framePool)
	for _, n := range []int{1, 1025, frameSize / 2, frameSize/2 + 1, frameSize, frameSize + 1, 1 << 20} {
		for range 3 {
			b := p.Get(n)
			if len(*b) != n || cap(*b) > 2*n {
				t.Errorf("a buffer for %d bytes has %d and room for %d", n, len(*b), cap(*b))
			}
			p.Put(b)
		}
	}
	if n := testing.AllocsPerRun(100, func() { p.Put(p.Get(frameSize)) }); n > 0.5 && !coretest.Sanitized {
		t.Errorf("%v allocations for a large frame", n)
	}
}

// Any message is refused, or is read as gRPC's own codec reads it.
func FuzzFrames(f *testing.F) {
	c := newCodec()
	for _, x := range []*frame{
		{header: []byte("header")},
		{descriptor: []byte{8, 1}, header: []byte("header"), body: mem.BufferSlice{mem.SliceBuffer("body")}},
	} {
		b, err := c.Marshal(x)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b.Materialize(), uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint8) {
		at := min(int(cut), len(data))
		slices := mem.BufferSlice{mem.SliceBuffer(data[:at]), mem.SliceBuffer(data[at:])}
		var got frame
		if err := c.Unmarshal(slices, &got); err != nil {
			t.Fatal(err)
		}
		var want flight.FlightData
		if err := c.CodecV2.Unmarshal(slices, &want); err != nil {
			return // what is unknown to us is not looked into
		}
		if got.err != nil {
			if bytes.Contains(data, []byte{0x0b}) || len(data) > maxHeader {
				return // groups, which have no use in Flight, are refused
			}
			t.Skip(got.err)
		}
		if !bytes.Equal(got.header, want.DataHeader) || !bytes.Equal(got.body.Materialize(), want.DataBody) {
			t.Fatalf("got %+v, want %v", got, &want)
		}
	})
}

// Any ticket is refused, or has a name and rows that the tensor has.
func FuzzTickets(f *testing.F) {
	f.Add([]byte(`{"name":"x","rows":[1,3]}`))
	f.Add([]byte(`{"name":"x"}`))
	x := patterned(f, core.TypeInt8, 5, 2)
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := readTicket("test", data)
		if err != nil {
			return
		}
		if again, err := readTicket("test", k.bytes()); err != nil || fmt.Sprint(again) != fmt.Sprint(k) {
			t.Fatalf("%+v became %+v: %v", k, again, err)
		}
		part, err := k.rowsOf("test", x)
		if err != nil {
			return
		}
		if n := part.Shape()[0]; n < 0 || n > 5 {
			t.Fatal(n)
		}
		_ = part.Close()
	})
}

// otherServer is a server that is not of this package.
type otherServer struct {
	flight.BaseFlightServer
	put func(flight.FlightService_DoPutServer) error
	get []*frame // the answer to DoGet
}

func (s *otherServer) DoPut(stream flight.FlightService_DoPutServer) error { return s.put(stream) }

func (s *otherServer) DoGet(_ *flight.Ticket, stream flight.FlightService_DoGetServer) error {
	for _, f := range s.get {
		if err := stream.Send(&flight.FlightData{DataHeader: f.header, DataBody: f.body.Materialize()}); err != nil {
			return err
		}
	}
	return nil
}

// serveOther starts a server, and returns a client of it.
func serveOther(t *testing.T, s *otherServer, o ClientOptions) *Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	flight.RegisterFlightServiceServer(g, s)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return connect(t, l.Addr().String(), o)
}

// A server may answer each batch by more than it reads, and the client goes on.
func TestAServerThatAnswersEachBatch(t *testing.T) {
	var batches atomic.Int64
	c := serveOther(t, &otherServer{put: func(stream flight.FlightService_DoPutServer) error {
		for {
			switch _, err := stream.Recv(); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			batches.Add(1)
			if err := stream.Send(&flight.PutResult{AppMetadata: make([]byte, 32<<10)}); err != nil {
				return err
			}
		}
	}}, ClientOptions{BatchBytes: 4096, Window: minWindow})
	r, err := c.Put(t.Context(), "x", patterned(t, core.TypeUint8, 4<<20))
	if err != nil || r.Batches != 1024 || batches.Load() != 1025 {
		t.Errorf("%+v, %d messages: %v", r, batches.Load(), err)
	}
}

// A server that ends the call early, with or without an error, has not got the tensor.
func TestAServerThatEndsEarly(t *testing.T) {
	for _, answer := range []error{nil, status.Error(codes.AlreadyExists, "no")} {
		c := serveOther(t, &otherServer{put: func(flight.FlightService_DoPutServer) error { return answer }}, ClientOptions{BatchBytes: 4096})
		_, err := c.Put(t.Context(), "x", patterned(t, core.TypeUint8, 8<<20))
		want := core.ErrInvalid
		if answer != nil {
			want = core.ErrExists
		}
		coretest.WantError(t, err, want, fmt.Sprint("an early end: ", answer))
	}
}

// A server that sends other rows than were asked for is not believed, whether it tells their number before or not.
func TestAServerThatSendsOtherRows(t *testing.T) {
	d, x := openCPU(t), patterned(t, core.TypeUint8, 10, 3)
	told := sentFrames(t, x, 1<<20)
	silent := slices.Clone(told)
	silent[0] = &frame{header: schemaHeader(typed(t, arrow.PrimitiveTypes.Uint8, []int64{3}, ""))}
	for what, frames := range map[string][]*frame{"told": told, "silent": silent} {
		c := serveOther(t, &otherServer{get: frames}, ClientOptions{})
		for _, rows := range [][]int64{{2, 4}, {0, 0}, {0, 11}, {4, 2}} {
			_, _, err := c.Get(t.Context(), "x", d, rows...)
			coretest.WantError(t, err, core.ErrInvalid, fmt.Sprint(what, rows))
		}
		got, _, err := c.Get(t.Context(), "x", d, 20, 30)
		if err != nil {
			t.Fatal(what, err)
		}
		wantSame(t, got, x)
		_ = got.Close()
	}
	c := serveOther(t, &otherServer{get: sentFrames(t, patterned(t, core.TypeUint8), 64)}, ClientOptions{})
	_, _, err := c.Get(t.Context(), "x", d, 0, 1)
	coretest.WantError(t, err, core.ErrInvalid, "a tensor without axes")
}

// What a client sends does not come back as a long text.
func TestLongErrors(t *testing.T) {
	for _, sentinel := range []error{core.ErrInvalid, io.ErrClosedPipe} {
		text := status.Convert(toStatus(fmt.Errorf("%w: %s", sentinel, strings.Repeat("ä", maxText)))).Message()
		if len(text) > maxText || len(text) < maxText-4 || !utf8.ValidString(text) || !strings.HasSuffix(text, "ä...") {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
	const parameters = `{"shape":[1],"permutation":[0%s]}`
	header := schemaHeader(raw(arrow.FixedSizeListOf(1, arrow.PrimitiveTypes.Int32), "arrow.fixed_shape_tensor", fmt.Sprintf(parameters, strings.Repeat(",0", 1000))))
	if _, err := readSchema("test", header); err == nil || len(err.Error()) > 300 {
		t.Error(err)
	}
}
