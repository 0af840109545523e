package triton

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// dial returns a client of the fake server, which is closed at the end of the test: then the server has no regions, and
// the folder no files.
func dial(t testing.TB, f *fakeServer, protocol string, o Options) *Client {
	t.Helper()
	o.folder = f.folder
	var c *Client
	var err error
	if protocol == "http" {
		c, err = DialHTTP(f.serveHTTP(t), o)
	} else {
		target, _ := f.serveGRPC(t, "localhost:0")
		c, err = Dial(target, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeClient(t, f, c) })
	return c
}

func closeClient(t testing.TB, f *fakeServer, c *Client) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := f.left(); n != 0 {
		t.Errorf("the server has %d regions after Close", n)
	}
	if names := files(t, f.folder); len(names) != 0 {
		t.Errorf("%v are left after Close", names)
	}
}

func files(t testing.TB, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// both runs a test with each protocol.
func both(t *testing.T, test func(t *testing.T, protocol string)) {
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) { test(t, protocol) })
	}
}

func infer(t testing.TB, c *Client, model string, o InferOptions, inputs map[string]*core.Tensor) *Result {
	t.Helper()
	r, err := c.Infer(t.Context(), model, inputs, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func wantEqual(t testing.TB, got, want *core.Tensor) {
	t.Helper()
	if same, err := core.EqualBits(t.Context(), got, want); err != nil || !same {
		t.Fatalf("%v is not %v: %v", got, want, err)
	}
}

// report returns the report of a tensor.
func report(t testing.TB, r *Result, name string) Report {
	t.Helper()
	for _, x := range r.Reports {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("no report for %q: %v", name, r.Reports)
	return Report{}
}

func wantReport(t testing.TB, r *Result, name string, m Mechanism, copied int64, reason string) {
	t.Helper()
	if x := report(t, r, name); x.Mechanism != m || x.BytesCopied != copied || !strings.Contains(x.Reason, reason) || (x.Reason == "") != (reason == "") {
		t.Fatalf("%v: want %v, %d copied, %q", x, m, copied, reason)
	}
}

// patterned returns a tensor of the host with any bytes that are valid elements.
func patterned(t testing.TB, dtype core.DType, shape ...int64) *core.Tensor {
	t.Helper()
	n, err := sizeOf("test", dtype, shape)
	if err != nil {
		t.Fatal(err)
	}
	raw := coretest.Pattern(int(n), 7)
	if dtype == core.TypeBool {
		for i := range raw {
			raw[i] &= 1
		}
	}
	return coretest.Keep(t)(onBytes(raw, dtype, shape))
}

// Every element type of the protocol arrives as it was sent, raw and in shared memory.
func TestElementTypes(t *testing.T) {
	both(t, func(t *testing.T, protocol string) {
		c := dial(t, newFake(t), protocol, Options{Inline: 100})
		for name, dtype := range datatypes {
			for _, n := range []int64{0, 1, 5, 1000} {
				x := patterned(t, dtype, n, 3)
				for range 2 { // the second answer comes in shared memory
					r := infer(t, c, "identity", InferOptions{}, map[string]*core.Tensor{"IN": x})
					y := r.Outputs["OUT"]
					if y.DType() != dtype || !slices.Equal(y.Shape(), []int64{n, 3}) {
						t.Fatal(name, y)
					}
					wantEqual(t, y, x)
					if in := report(t, r, "IN"); (in.Mechanism == Shared) != (x.NumBytes() > 100) || in.Bytes != x.NumBytes() {
						t.Fatal(in)
					}
					r.Close()
				}
			}
		}
		odd := patterned(t, core.TypeFloat8E5M2, 4)
		_, err := c.Infer(t.Context(), "identity", map[string]*core.Tensor{"IN": odd}, InferOptions{})
		coretest.WantError(t, err, core.ErrDType, "float8")
	})
}

// A tensor of Empty, and any contiguous part of it, is used where it lies. Regions are registered once.
func TestTensorsOfThePoolAreNotCopied(t *testing.T) {
	both(t, func(t *testing.T, protocol string) {
		f := newFake(t)
		c := dial(t, f, protocol, Options{})
		x := coretest.Keep(t)(c.Empty(t.Context(), core.TypeInt32, []int64{1000, 50}))
		s, err := core.Mutable[int32](x)
		if err != nil {
			t.Fatal(err)
		}
		for i := range s {
			s[i] = int32(i)
		}
		part := coretest.Keep(t)(x.Slice(0, 10, 900, 1))
		turned := coretest.Keep(t)(x.Transpose())
		for i := range 5 {
			r := infer(t, c, "identity", InferOptions{}, map[string]*core.Tensor{"IN": x, "IN2": part, "IN3": turned})
			wantReport(t, r, "IN", Shared, 0, "")
			wantReport(t, r, "IN2", Shared, 0, "")
			wantReport(t, r, "IN3", Shared, 200_000, "not of Client.Empty")
			if i == 0 {
				wantReport(t, r, "OUT", Raw, 0, "not known")
			} else {
				wantReport(t, r, "OUT", Shared, 0, "")
			}
			for name, want := range map[string]*core.Tensor{"OUT": x, "OUT2": part, "OUT3": turned} {
				wantEqual(t, r.Outputs[name], want)
			}
			r.Close()
		}
		if a, b := f.lastAt["IN"], f.lastAt["IN2"]; b.offset-a.offset != 10*50*4 || b.size != 890*50*4 || a.region != b.region {
			t.Fatal(a, b)
		}
		if f.registers != 1 {
			t.Fatalf("regions were registered %d times", f.registers)
		}
	})
}

// A size that the caller gives makes the first answer come in shared memory. One that is too small is the caller's error.
func TestOutputSizes(t *testing.T) {
	both(t, func(t *testing.T, protocol string) {
		f := newFake(t)
		c := dial(t, f, protocol, Options{Inline: -1})
		x := patterned(t, core.TypeFloat32, 5000)
		r := infer(t, c, "identity", InferOptions{Outputs: []Output{{Name: "OUT", Size: 20_000}}}, map[string]*core.Tensor{"IN": x})
		wantReport(t, r, "OUT", Shared, 0, "")
		wantEqual(t, r.Outputs["OUT"], x)
		_, err := c.Infer(t.Context(), "identity", map[string]*core.Tensor{"IN": x}, InferOptions{Outputs: []Output{{Name: "OUT", Size: 4000}}})
		coretest.WantError(t, err, core.ErrInvalid, "a size that is too small")

		// An output that grows is asked for again, once.
		before := f.infers
		grown := patterned(t, core.TypeFloat32, 50_000)
		r = infer(t, c, "identity", InferOptions{Outputs: []Output{{Name: "OUT"}}}, map[string]*core.Tensor{"IN": grown})
		wantReport(t, r, "OUT", Raw, 0, "not known")
		wantEqual(t, r.Outputs["OUT"], grown)
		if !r.Repeated || f.infers != before+2 {
			t.Fatal(r.Repeated, f.infers-before)
		}
		// A subset of the outputs does not become all of them.
		two := map[string]*core.Tensor{"IN": x, "IN2": grown}
		infer(t, c, "identity", InferOptions{Version: "1", Outputs: []Output{{Name: "OUT"}}}, two)
		for range 2 {
			if r := infer(t, c, "identity", InferOptions{Version: "1"}, two); len(r.Outputs) != 2 {
				t.Fatal(r.Reports)
			}
		}
		// One output in shared memory and one in the message.
		r = infer(t, c, "identity", InferOptions{Version: "2", Outputs: []Output{{Name: "OUT2"}, {Name: "OUT", Size: 20_000}}}, two)
		wantReport(t, r, "OUT", Shared, 0, "")
		wantReport(t, r, "OUT2", Raw, 0, "not known")
		wantEqual(t, r.Outputs["OUT"], x)
		wantEqual(t, r.Outputs["OUT2"], grown)
	})
}

// Inputs on a device are copied once, straight into the region, and outputs go to the device that was asked for.
func TestDevices(t *testing.T) {
	both(t, func(t *testing.T, protocol string) {
		c := dial(t, newFake(t), protocol, Options{Inline: 100})
		d := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Log: t.Logf})
		for _, n := range []int64{10, 10_000} {
			x := coretest.Row(t, d, n, core.AllocOptions{})
			p := coretest.Pattern(int(x.NumBytes()), 3)
			coretest.Put(t, d, x, p)
			for i := range 2 {
				r := infer(t, c, "identity", InferOptions{Device: d}, map[string]*core.Tensor{"IN": x})
				want := Raw
				if n > 100 {
					want = Shared
				}
				if in := report(t, r, "IN"); in.Mechanism != want || in.BytesCopied != x.NumBytes() || in.Device != d.ID() {
					t.Fatal(in)
				}
				y := r.Outputs["OUT"]
				if out := report(t, r, "OUT"); out.Device != d.ID() || y.Device() != d || i == 1 && out.Mechanism != want {
					t.Fatal(out)
				}
				if got := coretest.Get(t, d, y); !bytes.Equal(got, p) {
					t.Fatal("other bytes arrived")
				}
				r.Close()
			}
		}
	})
}

// A server that does not open the memory gets the bytes, and the report says why.
func TestServerWithoutSharedMemory(t *testing.T) {
	both(t, func(t *testing.T, protocol string) {
		f := newFake(t)
		f.refuse = true
		c := dial(t, f, protocol, Options{})
		x := coretest.Keep(t)(c.Empty(t.Context(), core.TypeUint8, []int64{100_000}))
		y := patterned(t, core.TypeUint8, 100_000)
		for range 2 {
			r := infer(t, c, "identity", InferOptions{}, map[string]*core.Tensor{"IN": x, "IN2": y})
			for _, name := range []string{"IN", "IN2", "OUT"} {
				wantReport(t, r, name, Raw, 0, "Unable to open shared memory region")
			}
			wantEqual(t, r.Outputs["OUT"], x)
			wantEqual(t, r.Outputs["OUT2"], y)
		}
	})
}

func TestWithoutRegions(t *testing.T) {
	x := patterned(t, core.TypeUint8, 100_000)
	for name, c := range map[string]struct {
		options Options
		spoil   func(*fakeServer)
		want    string
	}{
		"raw only":  {Options{RawOnly: true}, func(*fakeServer) {}, "Options.RawOnly"},
		"no folder": {Options{}, func(f *fakeServer) { _ = os.Remove(f.folder) }, "no such file"},
		"no room":   {Options{PoolLimit: 70_000}, func(*fakeServer) {}, "PoolLimit"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			client := dial(t, f, "grpc", c.options)
			c.spoil(f)
			r := infer(t, client, "identity", InferOptions{}, map[string]*core.Tensor{"IN": x})
			wantReport(t, r, "IN", Raw, 0, c.want)
			wantEqual(t, r.Outputs["OUT"], x)
			if _, err := client.Empty(t.Context(), core.TypeUint8, []int64{100_000}); err == nil {
				t.Fatal("there is memory")
			}
			if err := os.MkdirAll(f.folder, 0o700); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A server that was restarted has lost the regions: they are registered again, and the request is repeated.
func TestServerRestarts(t *testing.T) {
	f := newFake(t)
	target, stop := f.serveGRPC(t, "localhost:0")
	c, err := Dial(target, Options{folder: f.folder})
	if err != nil {
		t.Fatal(err)
	}
	defer closeClient(t, f, c)
	small, large := coretest.Keep(t)(c.Empty(t.Context(), core.TypeInt8, []int64{20_000})), patterned(t, core.TypeInt8, 200_000)
	inputs := map[string]*core.Tensor{"IN": small, "IN2": large}
	for range 2 {
		infer(t, c, "identity", InferOptions{}, inputs)
	}
	stop()
	f.forget()
	_, err = c.Infer(t.Context(), "identity", inputs, InferOptions{})
	coretest.WantError(t, err, ErrUnavailable, "no server")
	coretest.WantError(t, err, core.ErrClosed, "no server")
	f.serveGRPC(t, target)
	var r *Result
	for { // the connection is opened again after a while
		if r, err = c.Infer(t.Context(), "identity", inputs, InferOptions{}); !errors.Is(err, ErrUnavailable) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !r.Repeated {
		t.Error("the request was not repeated")
	}
	wantReport(t, r, "OUT2", Shared, 0, "")
	wantEqual(t, r.Outputs["OUT2"], large)
	if r := infer(t, c, "identity", InferOptions{}, inputs); r.Repeated {
		t.Error("the second request was repeated")
	}
}

func TestErrors(t *testing.T) {
	both(t, func(t *testing.T, protocol string) {
		f := newFake(t)
		c := dial(t, f, protocol, Options{})
		x := patterned(t, core.TypeFloat32, 10)
		closed := patterned(t, core.TypeFloat32, 10)
		closed.Close()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		one := map[string]*core.Tensor{"IN": x}
		for name, e := range map[string]struct {
			ctx    context.Context
			model  string
			inputs map[string]*core.Tensor
			o      InferOptions
			want   error
		}{
			"model":          {t.Context(), "other", one, InferOptions{}, core.ErrInvalid},
			"no model":       {t.Context(), "", one, InferOptions{}, core.ErrInvalid},
			"failure":        {t.Context(), "fail", one, InferOptions{}, core.ErrInvalid},
			"nil tensor":     {t.Context(), "identity", map[string]*core.Tensor{"IN": nil}, InferOptions{}, core.ErrInvalid},
			"closed tensor":  {t.Context(), "identity", map[string]*core.Tensor{"IN": closed}, InferOptions{}, core.ErrClosed},
			"nil context":    {nil, "identity", one, InferOptions{}, core.ErrInvalid},
			"ended":          {ended, "identity", one, InferOptions{}, context.Canceled},
			"output":         {t.Context(), "identity", one, InferOptions{Outputs: []Output{{Name: "X"}}}, core.ErrInvalid},
			"output twice":   {t.Context(), "identity", one, InferOptions{Outputs: []Output{{Name: "OUT"}, {Name: "OUT"}}}, core.ErrInvalid},
			"negative size":  {t.Context(), "identity", one, InferOptions{Outputs: []Output{{Name: "OUT", Size: -1}}}, core.ErrInvalid},
			"output no name": {t.Context(), "identity", one, InferOptions{Outputs: []Output{{}}}, core.ErrInvalid},
		} {
			_, err := c.Infer(e.ctx, e.model, e.inputs, e.o)
			if e.want == context.Canceled && err == e.want {
				continue
			}
			coretest.WantError(t, err, e.want, name)
		}
		if ok, err := c.Ready(t.Context()); !ok || err != nil {
			t.Error(ok, err)
		}
		if ok, err := c.ModelReady(t.Context(), "identity", ""); !ok || err != nil {
			t.Error(ok, err)
		}
		if ok, err := c.ModelReady(t.Context(), "other", ""); ok || err != nil {
			t.Error(ok, err)
		}
		if m, err := c.Model(t.Context(), "identity", ""); err != nil || m.Name != "identity" || m.Platform != "fake" || len(m.Inputs) != 1 || !slices.Equal(m.Inputs[0].Shape, []int64{-1}) {
			t.Error(m, err)
		}
		f.notReady = true
		if ok, err := c.Ready(t.Context()); ok || err != nil {
			t.Error(ok, err)
		}
		for shape, want := range map[*[]int64]error{{-1}: core.ErrLayout, {0}: core.ErrLayout, {math.MaxInt64}: core.ErrLayout, {1 << 50}: core.ErrOutOfMemory} {
			_, err := c.Empty(t.Context(), core.TypeFloat32, *shape)
			coretest.WantError(t, err, want, fmt.Sprint(*shape))
		}
		_, err := c.Empty(t.Context(), core.TypeFloat8E5M2, []int64{4})
		coretest.WantError(t, err, core.ErrDType, "float8")
		_, err = c.EmptyOn(t.Context(), c.host, core.TypeFloat32, []int64{4})
		coretest.WantError(t, err, core.ErrNotSupported, "EmptyOn without Options.CUDA")
		c.Close()
		_, err = c.Infer(t.Context(), "identity", one, InferOptions{})
		coretest.WantError(t, err, core.ErrClosed, "Infer after Close")
		_, err = c.Empty(t.Context(), core.TypeFloat32, []int64{4})
		coretest.WantError(t, err, core.ErrClosed, "Empty after Close")
	})
	for _, target := range []string{"", "http://", "ftp://x", "http://x?y", "::"} {
		_, err := DialHTTP(target, Options{})
		coretest.WantError(t, err, core.ErrInvalid, target)
	}
	_, err := Dial("localhost:1\x00", Options{})
	coretest.WantError(t, err, core.ErrInvalid, "target")
	for _, o := range []Options{{PoolLimit: -1}, {MaxMessage: -1}, {MaxMessage: 1 << 31}} {
		_, err := Dial("localhost:1", o)
		coretest.WantError(t, err, core.ErrInvalid, fmt.Sprint(o))
	}
	for _, o := range []InferOptions{{}} {
		var c *Client
		_, err := c.Infer(t.Context(), "identity", nil, o)
		coretest.WantError(t, err, core.ErrInvalid, "a nil client")
	}
}

// Messages above the limits are refused, and those below pass although gRPC's own limit is 4 MiB.
func TestMessageLimits(t *testing.T) {
	both(t, func(t *testing.T, protocol string) {
		f := newFake(t)
		c := dial(t, f, protocol, Options{RawOnly: true, MaxMessage: 9 << 20})
		x := patterned(t, core.TypeUint8, 8<<20)
		wantEqual(t, infer(t, c, "identity", InferOptions{}, map[string]*core.Tensor{"IN": x}).Outputs["OUT"], x)
		y := patterned(t, core.TypeUint8, 10<<20)
		_, err := c.Infer(t.Context(), "identity", map[string]*core.Tensor{"IN": y}, InferOptions{})
		coretest.WantError(t, err, core.ErrOutOfMemory, "a request that is too large")
		f.models["double"] = func(_ context.Context, in []fakeTensor) ([]fakeTensor, error) {
			return []fakeTensor{{"OUT", "UINT8", []int64{10 << 20}, make([]byte, 10<<20)}}, nil
		}
		_, err = c.Infer(t.Context(), "double", map[string]*core.Tensor{"IN": x}, InferOptions{})
		coretest.WantError(t, err, core.ErrOutOfMemory, "an answer that is too large")
	})
}

// The memory of a request that ended without an answer is not used again while the server may write to it.
func TestUncertainMemoryIsNotUsedAgain(t *testing.T) {
	both(t, func(t *testing.T, protocol string) {
		f := newFake(t)
		started := make(chan struct{})
		f.models["wait"] = func(ctx context.Context, _ []fakeTensor) ([]fakeTensor, error) {
			close(started)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c := dial(t, f, protocol, Options{})
		x := patterned(t, core.TypeUint8, 100_000)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-started
			cancel()
		}()
		_, err := c.Infer(ctx, "wait", map[string]*core.Tensor{"IN": x}, InferOptions{Outputs: []Output{{Name: "OUT", Size: 100_000}}})
		if err != context.Canceled {
			t.Fatal(err)
		}
		f.mu.Lock()
		old := f.lastAt["OUT"].region
		f.mu.Unlock()
		r := infer(t, c, "identity", InferOptions{Outputs: []Output{{Name: "OUT", Size: 100_000}}}, map[string]*core.Tensor{"IN": x})
		wantReport(t, r, "OUT", Shared, 0, "")
		f.mu.Lock()
		now := f.lastAt["OUT"].region
		f.mu.Unlock()
		if now == old {
			t.Fatal("the region was used again")
		}
		if err := f.has(false, old); err != nil {
			t.Fatal("the region was taken away from the server at once")
		}
		// After a while it is.
		c.pool.mu.Lock()
		for r := range c.pool.all {
			if !r.abandoned.IsZero() {
				r.abandoned = r.abandoned.Add(-2 * grace)
			}
		}
		c.pool.mu.Unlock()
		coretest.Keep(t)(c.Empty(t.Context(), core.TypeUint8, []int64{100}))
		c.pool.background.Wait()
		if f.has(false, old) == nil || slices.Contains(files(t, f.folder), old) {
			t.Fatal("the region was not removed")
		}
	})
}

// Close ends calls. Tensors stay valid, and their memory is freed with the last of them.
func TestClose(t *testing.T) {
	both(t, func(t *testing.T, protocol string) {
		f := newFake(t)
		started := make(chan struct{})
		f.models["wait"] = func(ctx context.Context, _ []fakeTensor) ([]fakeTensor, error) {
			close(started)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c := dial(t, f, protocol, Options{})
		x := patterned(t, core.TypeUint8, 100_000)
		r := infer(t, c, "identity", InferOptions{Outputs: []Output{{Name: "OUT", Size: 100_000}}}, map[string]*core.Tensor{"IN": x})
		y := r.Take("OUT")
		if r.Take("OUT") != nil || r.Close() != nil || r.Close() != nil {
			t.Fatal("an output was taken twice")
		}
		done := make(chan error)
		go func() {
			_, err := c.Infer(context.Background(), "wait", map[string]*core.Tensor{"IN": x}, InferOptions{})
			done <- err
		}()
		<-started
		closeClient(t, f, c)
		coretest.WantError(t, <-done, core.ErrClosed, "a call during Close")
		wantEqual(t, y, x)
		if live := liveRegions.Load(); live != 1 {
			t.Fatalf("%d regions are alive", live)
		}
		y.Close()
		if live := liveRegions.Load(); live != 0 {
			t.Fatalf("%d regions are alive", live)
		}
		closeClient(t, f, c)
	})
}

// What does not fit into the pool makes room: regions that nobody uses are removed.
func TestPoolMakesRoom(t *testing.T) {
	f := newFake(t)
	c := dial(t, f, "grpc", Options{PoolLimit: 4 << 20})
	for _, n := range []int64{1 << 20, 2 << 20, 3 << 20} {
		x := patterned(t, core.TypeUint8, n)
		r := infer(t, c, "identity", InferOptions{}, map[string]*core.Tensor{"IN": x})
		if in := report(t, r, "IN"); in.Mechanism != Shared {
			t.Fatal(n, in)
		}
		r.Close()
	}
	x := coretest.Keep(t)(c.Empty(t.Context(), core.TypeUint8, []int64{3 << 20}))
	_, err := c.Empty(t.Context(), core.TypeUint8, []int64{1 << 20})
	coretest.WantError(t, err, core.ErrOutOfMemory, "a full pool")
	x.Close()
	coretest.Keep(t)(c.Empty(t.Context(), core.TypeUint8, []int64{1 << 20}))
}

func TestConcurrentRequests(t *testing.T) {
	both(t, func(t *testing.T, protocol string) {
		f := newFake(t)
		c := dial(t, f, protocol, Options{Inline: 5000})
		var calls sync.WaitGroup
		for i := range 100 {
			calls.Go(func() {
				x, err := core.FromSlice(coretest.Pattern(1000*(i%30+1), uint64(i)))
				if err != nil {
					t.Error(err)
					return
				}
				defer x.Close()
				for range 3 {
					r, err := c.Infer(t.Context(), "identity", map[string]*core.Tensor{"IN": x}, InferOptions{Version: fmt.Sprint(i % 30)})
					if err != nil {
						t.Error(err)
						return
					}
					if same, err := core.EqualBits(t.Context(), r.Outputs["OUT"], x); err != nil || !same {
						t.Error("other bytes arrived", err)
					}
					r.Close()
				}
			})
		}
		calls.Wait()
	})
}
