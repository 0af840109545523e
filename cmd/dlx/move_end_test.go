package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/cmd/dlx/internal/wraptest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// watched runs the program with simulated devices, and calls a function before their
// copy from the host of the number n, counted from 1.
func watched(t *testing.T, ctx context.Context, n int, call func(), args ...string) outcome {
	t.Helper()
	copies := 0
	simulated := wraptest.Backend{
		Backend: coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf}),
		FromHost: func(src *core.Tensor) (*core.Tensor, error) {
			if copies++; copies == n {
				call()
			}
			return src.Share()
		},
	}
	return dlxWith(t, ctx, []core.Backend{cpu.New(), simulated}, args...)
}

func TestAnInterruptedMovePrintsTheTripsThatWereMade(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := watched(t, ctx, 4, cancel, "move", digits, "--via", "cpu,ext_dev:0,cpu", "--repeat", "1000", "--json")
	var e *errorResult
	r := decodeBoth[moveResult](t, o, "move", &e)
	if o.code != exitFailed || e == nil || e.Kind != kindInterrupted || !strings.Contains(o.stderr, "interrupted") {
		t.Fatalf("exit code %d, error %+v, stderr %q", o.code, e, o.stderr)
	}
	if len(r.Tensors) != 1 || r.Incomplete == nil || r.Incomplete.Tensor != "digits" || r.Incomplete.Trip != 4 {
		t.Fatalf("%+v, incomplete %+v", r, r.Incomplete)
	}
	x := r.Tensors[0]
	if x.Trips != 3 || len(x.Hops) != 3 || x.Median <= 0 || x.Hops[1].Mechanism != "direct" || x.BytesCopied != 2*x.Bytes {
		t.Errorf("%+v", x)
	}
	for _, h := range x.Hops {
		if h.Median <= 0 || h.Cold > x.Trips {
			t.Errorf("%+v", h)
		}
	}
}

func TestAnInterruptInALaterTensorPrintsThoseBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := watched(t, ctx, 2, cancel, "move", archive, "--via", "ext_dev:0")
	for _, want := range []string{"mean float32[10 8 8]", "incomplete: ended with tensor first on trip 1 of 1\n", "tensors: 1, "} {
		if o.code != exitFailed || !strings.Contains(o.stdout, want) {
			t.Errorf("exit code %d, no %q in\n%s", o.code, want, o.stdout)
		}
	}
}

func TestAnInterruptOfTheFirstTripPrintsNoResult(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if o := watched(t, ctx, 1, cancel, "move", digits, "--via", "ext_dev:0"); o.code != exitFailed || o.stdout != "" {
		t.Errorf("%+v", o)
	}
}

func TestAnOutThatFailsLeavesTheResults(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(folder, "x.npy")
	gone := func() {
		if err := os.Remove(folder); err != nil {
			t.Error(err)
		}
	}
	o := watched(t, t.Context(), 1, gone, "move", digits, "--via", "ext_dev:0", "--out", out, "--json")
	var e *errorResult
	r := decodeBoth[moveResult](t, o, "move", &e)
	if o.code != exitFailed || e == nil || !strings.Contains(e.Message, "x.npy") || r.Out != "" || r.Incomplete != nil {
		t.Errorf("exit code %d, error %+v, out %q", o.code, e, r.Out)
	}
	if len(r.Tensors) != 1 || r.Tensors[0].Trips != 1 {
		t.Errorf("%+v", r)
	}
}

// What cannot be written is found before anything is moved.
func TestOutIsCheckedBeforeTheWork(t *testing.T) {
	for _, c := range []struct{ file, out, want string }{
		{archive, "x.npy", "an .npy holds exactly one"},
		{tensors, "x.npz", "NumPy has no element type bfloat16"},
	} {
		moved := false
		o := watched(t, t.Context(), 1, func() { moved = true }, "move", c.file, "--via", "ext_dev:0", "--out", filepath.Join(t.TempDir(), c.out))
		if o.code != exitFailed || o.stdout != "" || !strings.Contains(o.stderr, c.want) || moved {
			t.Errorf("%s to %s: %+v, moved %v", c.file, c.out, o, moved)
		}
	}
}

func TestElementsThatDoNotLieInPlaceAreReportedAsCopied(t *testing.T) {
	for _, c := range []struct {
		file, tensor, reason string
		bytes                int64
	}{
		{"../../testdata/digits_compressed.npz", "mean", "compressed", 2560},
		{archive, "target", "unaligned", 14376},
	} {
		r := decode[moveResult](t, dlx(t, "move", c.file, "--tensor", c.tensor, "--via", "cpu", "--repeat", "3", "--json"), "move")
		x := r.Tensors[0]
		if x.Load == nil || x.Load.Reason != c.reason || x.Load.BytesCopied != c.bytes || x.Load.Time <= 0 {
			t.Fatalf("load %+v", x.Load)
		}
		if x.BytesCopied != c.bytes || r.BytesCopied != c.bytes || x.Hops[0].From != "cpu" || x.Hops[0].Mechanism != "alias" {
			t.Errorf("%+v", x)
		}
		text := dlx(t, "move", c.file, "--tensor", c.tensor, "--via", "cpu").stdout
		if !strings.Contains(text, "load  file  cpu  copy, "+c.reason) {
			t.Errorf("no load in\n%s", text)
		}

		o := dlx(t, "move", c.file, "--tensor", c.tensor, "--via", "cpu", "--copy", "never")
		want := `tensor \"` + c.tensor + `\" is ` + c.reason + " in the file: it has to be copied, and --copy is never"
		if o.code != exitFailed || o.stdout != "" || !strings.Contains(o.stderr, want) {
			t.Errorf("--copy never: %+v, want %q", o, want)
		}
	}
	r := decode[moveResult](t, dlx(t, "move", archive, "--tensor", "first", "--via", "cpu", "--copy", "never", "--json"), "move")
	if x := r.Tensors[0]; x.Load != nil || r.BytesCopied != 0 || x.Hops[0].From != moveOrigin {
		t.Errorf("in place: %+v", x)
	}
}

const moveOrigin = "file"
