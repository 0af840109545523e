package triton

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/triton/internal/realserver"
)

// startReal starts Triton's server, for tests without -short.
func startReal(t *testing.T, models ...realserver.Model) *realserver.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("Triton's server takes seconds to start: short tests use the fake one")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	python, err := realserver.Python("../..")
	if err != nil {
		t.Fatal(err)
	}
	before := ofServer(t)
	s, err := realserver.New(python, t.TempDir(), models...)
	if err == nil {
		err = s.Run(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		for _, path := range ofServer(t) { // a server that was killed leaves its own memory
			if !slices.Contains(before, path) {
				_ = os.Remove(path)
			}
		}
		if t.Failed() {
			t.Log(s.Log())
		}
	})
	return s
}

// ofServer returns the files of Triton's Python backend in /dev/shm.
func ofServer(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("/dev/shm/triton_python_backend_shm_region_*")
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func dialReal(t *testing.T, s *realserver.Server, protocol string, o Options) *Client {
	t.Helper()
	open, target := Dial, s.GRPC
	if protocol == "http" {
		open, target = DialHTTP, s.HTTP
	}
	c, err := open(target, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var paths []string
		for r := range c.pool.all {
			paths = append(paths, r.file.path)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, path := range paths {
			if _, err := os.Stat(path); err == nil {
				t.Errorf("%s is left after Close", path)
			}
		}
	})
	return c
}

func TestRealServer(t *testing.T) {
	types := []string{"FP32", "FP16", "INT64", "BOOL"}
	models := []realserver.Model{realserver.Add(), realserver.Rows(), realserver.Slow()}
	for _, name := range types {
		models = append(models, realserver.Identity(name))
	}
	s := startReal(t, models...)
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) {
			c := dialReal(t, s, protocol, Options{Inline: 1000})
			if ok, err := c.Ready(t.Context()); err != nil || !ok {
				t.Fatal(ok, err)
			}
			if ok, err := c.ModelReady(t.Context(), "nothing", ""); ok {
				t.Fatal(ok, err)
			}
			if m, err := c.Model(t.Context(), "add", "1"); err != nil || len(m.Inputs) != 2 || m.Outputs[0].Datatype != "FP32" {
				t.Fatal(m, err)
			}
			for _, name := range types {
				t.Run(name, func(t *testing.T) {
					for _, size := range []int64{16, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20} {
						realIdentity(t, c, datatypes[name], "identity_"+strings.ToLower(name), size)
					}
				})
			}
			t.Run("raw", func(t *testing.T) {
				raw := dialReal(t, s, protocol, Options{RawOnly: true})
				x := patterned(t, core.TypeInt64, 1<<20)
				r := infer(t, raw, "identity_int64", InferOptions{}, map[string]*core.Tensor{"IN": x})
				wantReport(t, r, "OUT", Raw, 0, "RawOnly")
				wantEqual(t, r.Outputs["OUT"], x)
			})
			t.Run("add", func(t *testing.T) { realAdd(t, c) })
			t.Run("batch", func(t *testing.T) { realBatch(t, c) })
			t.Run("growth", func(t *testing.T) {
				for i, n := range []int64{5000, 50_000, 1 << 20} {
					x := patterned(t, core.TypeInt64, n)
					r := infer(t, c, "identity_int64", InferOptions{Version: "1", Outputs: []Output{{Name: "OUT"}}}, map[string]*core.Tensor{"IN": x})
					wantEqual(t, r.Outputs["OUT"], x)
					if r.Repeated != (i > 0) {
						t.Fatal(i, r.Repeated, r.Reports)
					}
				}
				x := patterned(t, core.TypeInt64, 5000)
				_, err := c.Infer(t.Context(), "identity_int64", map[string]*core.Tensor{"IN": x}, InferOptions{Outputs: []Output{{Name: "OUT", Size: 4096}}})
				coretest.WantError(t, err, core.ErrInvalid, "a size that is too small")
			})
			t.Run("another folder", func(t *testing.T) { // as in a container without the same /dev/shm
				far := dialReal(t, s, protocol, Options{folder: t.TempDir()})
				x := patterned(t, core.TypeInt64, 100_000)
				r := infer(t, far, "identity_int64", InferOptions{}, map[string]*core.Tensor{"IN": x})
				wantReport(t, r, "IN", Raw, 0, "Unable to open shared memory region")
				wantEqual(t, r.Outputs["OUT"], x)
			})
			t.Run("canceled", func(t *testing.T) {
				x := patterned(t, core.TypeInt32, 1<<20)
				f := coretest.Keep(t)(x.AsType(t.Context(), core.TypeFloat32))
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // the model takes a second
				defer cancel()
				_, err := c.Infer(ctx, "slow", map[string]*core.Tensor{"IN": f}, InferOptions{Outputs: []Output{{Name: "OUT", Size: f.NumBytes()}}})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				r := infer(t, c, "slow", InferOptions{Outputs: []Output{{Name: "OUT", Size: f.NumBytes()}}}, map[string]*core.Tensor{"IN": f})
				wantEqual(t, r.Outputs["OUT"], f)
				if !s.Alive() {
					t.Fatal("the server ended")
				}
			})
			t.Run("concurrent", func(t *testing.T) { realConcurrent(t, c) })
			t.Run("errors", func(t *testing.T) {
				x := patterned(t, core.TypeInt64, 100_000)
				for model, inputs := range map[string]map[string]*core.Tensor{"nothing": {"IN": x}, "identity_int64": {"X": x}, "identity_fp32": {"IN": x}} {
					_, err := c.Infer(t.Context(), model, inputs, InferOptions{})
					coretest.WantError(t, err, core.ErrInvalid, model)
				}
			})
		})
	}
	if !s.Alive() {
		t.Fatal("the server ended")
	}
}

// realIdentity sends a tensor of size bytes four times: from the program's memory, then from the pool.
func realIdentity(t *testing.T, c *Client, dtype core.DType, model string, size int64) {
	t.Helper()
	item, _ := dtype.ItemSize()
	n := size / item
	x := patterned(t, dtype, n)
	y := coretest.Keep(t)(c.Empty(t.Context(), dtype, []int64{n}))
	if err := c.host.Copy(t.Context(), nil, y, x); err != nil {
		t.Fatal(err)
	}
	want := Raw
	if size > 1000 {
		want = Shared
	}
	for i, in := range []*core.Tensor{x, x, y, y} {
		r := infer(t, c, model, InferOptions{Outputs: []Output{{Name: "OUT", Size: size}}}, map[string]*core.Tensor{"IN": in})
		wantEqual(t, r.Outputs["OUT"], x)
		if out, input := report(t, r, "OUT"), report(t, r, "IN"); out.Mechanism != want || i < 2 && input.Mechanism != want || i >= 2 && (input.Mechanism != Shared || input.BytesCopied != 0) {
			t.Fatal(r.Reports)
		}
		r.Close()
	}
	x.Close()
	y.Close()
}

// One input of the pool and one in the message.
func realAdd(t *testing.T, c *Client) {
	for _, n := range []int64{100, 100_000} {
		a := coretest.Keep(t)(c.Empty(t.Context(), core.TypeFloat32, []int64{n}))
		s, err := core.Mutable[float32](a)
		if err != nil {
			t.Fatal(err)
		}
		other := make([]float32, n)
		for i := range s {
			s[i], other[i] = float32(i), float32(2*i)
		}
		b := coretest.Keep(t)(core.FromSlice(other))
		for range 2 {
			r := infer(t, c, "add", InferOptions{}, map[string]*core.Tensor{"A": a, "B": b})
			got, err := core.Values[float32](r.Outputs["SUM"])
			if err != nil || len(got) != int(n) || got[n-1] != float32(3*(n-1)) || got[n/2] != float32(3*(n/2)) {
				t.Fatal(err, len(got))
			}
		}
	}
}

func realBatch(t *testing.T, c *Client) {
	var calls sync.WaitGroup
	for rows := int64(1); rows <= 8; rows++ { // the server makes batches of requests
		calls.Go(func() {
			s := make([]float32, rows*1000)
			for i := range s {
				s[i] = float32(i / 1000)
			}
			x, err := core.FromSlice(s, rows, 1000)
			if err != nil {
				t.Error(err)
				return
			}
			defer x.Close()
			r, err := c.Infer(t.Context(), "rows", map[string]*core.Tensor{"IN": x}, InferOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			got, err := core.Values[float32](r.Outputs["SUM"])
			for i, sum := range got {
				if math.Abs(float64(sum-float32(i*1000))) > 1 {
					t.Errorf("row %d of %d: %v", i, rows, sum)
				}
			}
			if err != nil || len(got) != int(rows) {
				t.Error(err, len(got))
			}
		})
	}
	calls.Wait()
}

func realConcurrent(t *testing.T, c *Client) {
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			s := make([]int64, 1000+500*(i%20))
			for j := range s {
				s[j] = int64(i*1_000_000 + j)
			}
			x, err := core.FromSlice(s)
			if err != nil {
				t.Error(err)
				return
			}
			defer x.Close()
			for range 3 {
				r, err := c.Infer(t.Context(), "identity_int64", map[string]*core.Tensor{"IN": x}, InferOptions{Outputs: []Output{{Name: "OUT", Size: x.NumBytes()}}})
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := core.Values[int64](r.Outputs["OUT"]); err != nil || !slices.Equal(got, s) {
					t.Error("other elements arrived", err)
				}
				r.Close()
			}
		})
	}
	calls.Wait()
}

// A server that was killed has lost the regions, and gets them again when it runs again.
func TestRealServerRestarts(t *testing.T) {
	s := startReal(t, realserver.Identity("FP32"))
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) {
			c := dialReal(t, s, protocol, Options{})
			x := coretest.Keep(t)(c.Empty(t.Context(), core.TypeFloat32, []int64{100_000}))
			if err := core.Fill(t.Context(), x, float32(7)); err != nil {
				t.Fatal(err)
			}
			in := map[string]*core.Tensor{"IN": x}
			infer(t, c, "identity_fp32", InferOptions{}, in)
			s.Kill()
			_, err := c.Infer(t.Context(), "identity_fp32", in, InferOptions{})
			coretest.WantError(t, err, ErrUnavailable, "no server")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if err := s.Run(ctx); err != nil {
				t.Fatal(err)
			}
			var r *Result
			for { // the connection is opened again after a while
				if r, err = c.Infer(ctx, "identity_fp32", in, InferOptions{}); !errors.Is(err, ErrUnavailable) {
					break
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			wantReport(t, r, "IN", Shared, 0, "")
			wantEqual(t, r.Outputs["OUT"], x)
			if !r.Repeated {
				t.Error("the request was not repeated")
			}
		})
	}
}

// The regions of a client that was killed are removed, from the server too, by the next one.
func TestRealServerForgetsKilledClients(t *testing.T) {
	s := startReal(t, realserver.Identity("FP32"))
	pid, kill := startChild(t, "/dev/shm", s.GRPC, "identity_fp32")
	kill()
	left, err := filepath.Glob(fmt.Sprintf("/dev/shm/%s%d-*", prefix, pid))
	if err != nil || len(left) == 0 {
		t.Fatal("the child left nothing", err)
	}
	c := dialReal(t, s, "grpc", Options{})
	x := patterned(t, core.TypeInt32, 100_000)
	f := coretest.Keep(t)(x.AsType(t.Context(), core.TypeFloat32))
	wantReport(t, infer(t, c, "identity_fp32", InferOptions{}, map[string]*core.Tensor{"IN": f}), "IN", Shared, f.NumBytes(), "not of Client.Empty")
	for _, path := range left {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
		if here, err := c.server.registered(t.Context(), false, filepath.Base(path)); err != nil || here {
			t.Errorf("the server still has %s: %v", path, err)
		}
	}
}

// The numbers and types of the fields are those of the published protocol, and the code is what the compiler makes.
func TestMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("the published protocol comes with Triton's client for Python, which short tests do not need")
	}
	python, err := realserver.Python("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	generate := exec.Command("internal/wire/generate.sh", out)
	generate.Env = append(os.Environ(), "DLX_TRITON_PYTHON="+python)
	if text, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	have, err := os.ReadFile("internal/wire/wire.pb.go")
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(filepath.Join(out, "wire.pb.go"))
	if err != nil || !slices.Equal(have, made) {
		t.Fatal("internal/wire/wire.pb.go is not what internal/wire/generate.sh makes", err)
	}
	coretest.BuildsProgram(t)
	if text, err := exec.Command(python, "internal/wire/compare.py").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
