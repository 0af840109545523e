package triton

import (
	"bytes"
	"math"
	"strconv"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/triton/internal/wire"
	"google.golang.org/protobuf/proto"
)

// Answers that contradict the request or themselves are errors, and leave nothing open.
func TestHostileAnswers(t *testing.T) {
	f := newFake(t)
	c := dial(t, f, "grpc", Options{})
	x := patterned(t, core.TypeUint8, 100_000)
	at := func(region string, offset, size int64) map[string]*wire.InferParameter {
		return (&place{region, offset, size}).parameters()
	}
	first := func(a *wire.ModelInferResponse) *wire.ModelInferResponse_InferOutputTensor { return a.Outputs[0] }
	for name, e := range map[string]struct {
		change func(*wire.ModelInferResponse)
		want   error
	}{
		"no output":     {func(a *wire.ModelInferResponse) { a.Outputs, a.RawOutputContents = nil, nil }, core.ErrInvalid},
		"another name":  {func(a *wire.ModelInferResponse) { first(a).Name = "X" }, core.ErrInvalid},
		"no name":       {func(a *wire.ModelInferResponse) { first(a).Name = "" }, core.ErrInvalid},
		"twice":         {func(a *wire.ModelInferResponse) { a.Outputs = append(a.Outputs, first(a)) }, core.ErrInvalid},
		"type":          {func(a *wire.ModelInferResponse) { first(a).Datatype = "FP31" }, core.ErrDType},
		"strings":       {func(a *wire.ModelInferResponse) { first(a).Datatype = "BYTES" }, core.ErrDType},
		"larger":        {func(a *wire.ModelInferResponse) { first(a).Shape = []int64{200_000} }, core.ErrLayout},
		"huge":          {func(a *wire.ModelInferResponse) { first(a).Shape = []int64{math.MaxInt64, 3} }, core.ErrLayout},
		"negative":      {func(a *wire.ModelInferResponse) { first(a).Shape = []int64{-5} }, core.ErrLayout},
		"rank":          {func(a *wire.ModelInferResponse) { first(a).Shape = make([]int64, 1000) }, core.ErrLayout},
		"another place": {func(a *wire.ModelInferResponse) { first(a).Parameters = at("x", 0, 100_000) }, core.ErrLayout},
		"another size": {func(a *wire.ModelInferResponse) {
			first(a).Parameters = at(f.lastAt["OUT"].region, f.lastAt["OUT"].offset, 5)
		}, core.ErrLayout},
		"both ways": {func(a *wire.ModelInferResponse) {
			first(a).Parameters, a.RawOutputContents = at("x", 0, 100_000), [][]byte{make([]byte, 100_000)}
		}, core.ErrInvalid},
		"half in the message": {func(a *wire.ModelInferResponse) { a.RawOutputContents = [][]byte{make([]byte, 5)} }, core.ErrLayout},
		"more contents":       {func(a *wire.ModelInferResponse) { a.RawOutputContents = make([][]byte, 5) }, core.ErrInvalid},
		"typed contents":      {func(a *wire.ModelInferResponse) { first(a).Contents = &wire.InferTensorContents{} }, core.ErrNotSupported},
	} {
		t.Run(name, func(t *testing.T) {
			f.change = e.change
			_, err := c.Infer(t.Context(), "identity", map[string]*core.Tensor{"IN": x}, InferOptions{Outputs: []Output{{Name: "OUT", Size: 100_000}}})
			coretest.WantError(t, err, e.want, name)
		})
	}
	f.change = func(a *wire.ModelInferResponse) { a.RawOutputContents = [][]byte{make([]byte, 100_000)} }
	r := infer(t, c, "identity", InferOptions{Outputs: []Output{{Name: "OUT", Size: 100_000}}}, map[string]*core.Tensor{"IN": x})
	wantReport(t, r, "OUT", Raw, 0, "put the output into the message")
}

// slotTrip is a trip that asks for OUT in a slot of 4096 bytes, and for OUT2 in the message.
func slotTrip(t testing.TB, c *Client) *trip {
	t.Helper()
	s, err := c.pool.get(t.Context(), nil, 4096)
	if err != nil {
		t.Fatal(err)
	}
	return &trip{client: c, outputs: []*landing{{name: "OUT", slot: s}, {name: "OUT2"}}}
}

// arriveAny makes tensors of any answer. What they say must lie within their memory, and nothing may stay open.
func arriveAny(t *testing.T, c *Client, a *answer) {
	trip := slotTrip(t, c)
	r, err := trip.arrive(t.Context(), a)
	if err == nil {
		for name, x := range r.Outputs {
			if limit := int64(4096); name == "OUT" && report(t, r, name).Mechanism == Shared && x.NumBytes() > limit {
				t.Fatalf("%v has more than %d bytes", x, limit)
			}
			y, err := x.Clone(t.Context()) // reads all elements
			if err != nil {
				t.Fatal(err)
			}
			y.Close()
		}
		r.Close()
	} else {
		coretest.WantError(t, err, errAnswer, "an answer")
	}
	trip.release(false)
}

func fuzzClient(f *testing.F) *Client {
	c, err := Dial("localhost:1", Options{folder: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	return c
}

func FuzzGRPCAnswer(f *testing.F) {
	for _, a := range []*wire.ModelInferResponse{
		{Outputs: []*wire.ModelInferResponse_InferOutputTensor{{Name: "OUT", Datatype: "FP32", Shape: []int64{2, 3}}, {Name: "OUT2", Datatype: "INT8", Shape: []int64{3}}}, RawOutputContents: [][]byte{nil, {1, 2, 3}}},
		{Outputs: []*wire.ModelInferResponse_InferOutputTensor{{Name: "OUT", Datatype: "BOOL", Shape: []int64{5000}, Parameters: (&place{"x", 1, 2}).parameters()}}},
	} {
		p, err := proto.Marshal(a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	c := fuzzClient(f)
	f.Fuzz(func(t *testing.T, p []byte) {
		in := new(wire.ModelInferResponse)
		if proto.Unmarshal(p, in) != nil {
			return
		}
		if a, err := readInferResponse(in); err == nil {
			arriveAny(t, c, a)
		}
	})
}

func FuzzHTTPAnswer(f *testing.F) {
	for _, text := range []string{
		`{"outputs":[{"name":"OUT","datatype":"FP32","shape":[2,3]},{"name":"OUT2","datatype":"INT8","shape":[3],"parameters":{"binary_data_size":3}}]}`,
		`{"outputs":[{"name":"OUT","datatype":"FP32","shape":[2,3],"parameters":{"shared_memory_region":"x","shared_memory_byte_size":24}}]}`,
		`{"outputs":[{"name":"OUT2","datatype":"FP32","shape":[1],"data":[1]}]}`,
		`{"outputs":[{"name":"OUT2","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":-1}}]}`,
	} {
		f.Add([]byte(text+"\x01\x02\x03"), strconv.Itoa(len(text)))
		f.Add([]byte(text), "")
	}
	f.Add([]byte("{}"), "9999999999999999999")
	c := fuzzClient(f)
	f.Fuzz(func(t *testing.T, body []byte, length string) {
		if a, err := readInferBody(bytes.NewReader(body), length, 1<<20); err == nil {
			arriveAny(t, c, a)
		}
	})
}
