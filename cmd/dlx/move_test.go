package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/cmd/dlx/internal/move"
	"github.com/dlx-go/dlx/cmd/dlx/internal/wraptest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestMoveReportsEveryHopOfEveryTensor(t *testing.T) {
	o := dlx(t, "move", archive, "--via", "cpu,ext_dev:0,ext_dev:1,cpu", "--verify", "--json")
	r := decode[moveResult](t, o, "move")
	if o.code != exitOK || len(r.Tensors) != 3 || r.Copy != move.IfNeeded || !*r.Verified {
		t.Fatalf("exit code %d, %+v", o.code, r)
	}
	// One of them is copied to where the simulated devices can map it.
	want := map[string]string{
		"mean":   "cpu alias cpu, cpu map ext_dev:0, ext_dev:0 map ext_dev:1, ext_dev:1 alias cpu",
		"first":  "file alias cpu, cpu direct ext_dev:0, ext_dev:0 peer ext_dev:1, ext_dev:1 direct cpu",
		"target": "cpu alias cpu, cpu direct ext_dev:0, ext_dev:0 peer ext_dev:1, ext_dev:1 direct cpu",
	}
	copies := map[string]int64{"direct": 1, "peer": 1}
	var copied int64
	for _, x := range r.Tensors {
		var route []string
		var bytes int64
		for _, h := range x.Hops {
			route = append(route, h.From+" "+h.Mechanism+" "+h.To)
			bytes += h.BytesCopied
			if !*h.Verified || h.Median <= 0 || h.BytesCopied != copies[h.Mechanism]*x.Bytes || (h.GBPerSecond > 0) != (h.BytesCopied > 0) || h.Wait == "" {
				t.Errorf("%s: hop %+v", x.Tensor, h)
			}
		}
		if got := strings.Join(route, ", "); got != want[x.Tensor] {
			t.Errorf("%s went %s, want %s", x.Tensor, got, want[x.Tensor])
		}
		if x.Load != nil {
			bytes += x.Load.BytesCopied
		}
		if x.BytesCopied != bytes {
			t.Errorf("%s: %d bytes copied, want %d", x.Tensor, x.BytesCopied, bytes)
		}
		copied += x.BytesCopied
	}
	if r.BytesCopied != copied {
		t.Errorf("%d bytes copied in all, want %d", r.BytesCopied, copied)
	}
}

// Programs that call dlx handoff get what they got before; whoever reads the log learns the new name.
func TestTheOldNameOfMoveWorks(t *testing.T) {
	const hint = "dlx handoff is the old name of dlx move: write dlx move"
	o := dlx(t, "handoff", digits, "--via", "cpu,ext_dev:0", "--verify", "--json", "--log-format", "json")
	if r := decode[moveResult](t, o, "handoff"); o.code != exitOK || r.Tensors[0].Trips != 1 || !*r.Verified {
		t.Errorf("exit code %d, %+v", o.code, r)
	}
	if !json.Valid([]byte(o.stderr)) || strings.Count(o.stderr, "\n") != 1 || !strings.Contains(o.stderr, hint) {
		t.Errorf("the log is not one line that says %q:\n%s", hint, o.stderr)
	}
	if o := dlx(t, "handoff", digits, "--via", "cpu"); o.code != exitOK || !strings.HasPrefix(o.stdout, "TENSOR ") || !strings.Contains(o.stderr, hint) {
		t.Errorf("%+v", o)
	}
	if o := dlx(t, "move", digits, "--via", "cpu"); o.code != exitOK || o.stderr != "" {
		t.Errorf("move logs %q", o.stderr)
	}
	if e := decodeError(t, dlx(t, "handoff", digits, "--json"), "handoff"); e.Kind != kindUsage {
		t.Errorf("%+v", e)
	}

	if o := dlx(t, "handoff", "--help"); !strings.HasPrefix(o.stdout, "dlx handoff is the old name of dlx move.\n\nMove the tensors of a file") {
		t.Errorf("the help is\n%s", o.stdout)
	}
	for _, args := range [][]string{{"--help"}, {"__complete", ""}} {
		if o := dlx(t, args...); !slices.Contains(strings.Fields(o.stdout), "move") || strings.Contains(o.stdout, "handoff") {
			t.Errorf("%s shows the old name, or not the new one:\n%s", args[0], o.stdout)
		}
	}
	if o := dlx(t, "__complete", "handoff", digits, "--copy", ""); !strings.Contains(o.stdout, "if_needed") {
		t.Errorf("the flags are not completed: %q", o.stdout)
	}
}

func TestMoveTextNamesItsUnits(t *testing.T) {
	once := dlx(t, "move", digits, "--via", "cpu", "--copy", "always", "--verify").stdout
	for _, want := range []string{"digits float64[1797 8 8]", "TIME", "GB/S", "920.06 kB", "direct", "WAIT", "yes"} {
		if !strings.Contains(once, want) {
			t.Errorf("no %q in\n%s", want, once)
		}
	}
	often := dlx(t, "move", digits, "--via", "cpu", "--repeat", "3").stdout
	for _, want := range []string{"MIN", "MEDIAN", "MAX", "alias", "0 B", " us"} {
		if !strings.Contains(often, want) {
			t.Errorf("no %q in\n%s", want, often)
		}
	}
}

func TestRepeatMakesSoManyTrips(t *testing.T) {
	r := decode[moveResult](t, dlx(t, "move", digits, "--via", "cpu,cpu", "--copy", "always", "--repeat", "5", "--json"), "move")
	x := r.Tensors[0]
	if x.Trips != 5 || x.Min > x.Median || x.Median > x.Max || r.Verified != nil {
		t.Errorf("%+v", r)
	}
}

func TestTensorChoosesByName(t *testing.T) {
	r := decode[moveResult](t, dlx(t, "move", archive, "--via", "cpu", "--tensor", "target", "--tensor", "mean", "--json"), "move")
	var names []string
	for _, x := range r.Tensors {
		names = append(names, x.Tensor)
	}
	if !slices.Equal(names, []string{"target", "mean"}) {
		t.Errorf("moved %q", names)
	}
}

func TestOutHoldsTheElementsThatLeft(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{digits, "x.npy"},
		{digits, "x.npz"},
		{digits, "x.safetensors"},
		{"../../testdata/digits_fortran.npy", "x.npy"},
		{"../../testdata/digits_compressed.npz", "x.safetensors"},
		{tensors, "x.safetensors"},
	} {
		for _, via := range []string{"cpu", "ext_dev:1"} {
			t.Run(filepath.Base(c.in)+" by "+via+" to "+c.out, func(t *testing.T) {
				out := filepath.Join(t.TempDir(), c.out)
				r := decode[moveResult](t, dlx(t, "move", c.in, "--via", via, "--out", out, "--json"), "move")
				if r.Out != out {
					t.Errorf("out is %q", r.Out)
				}
				sameTensors(t, c.in, out)
			})
		}
	}
}

// sameTensors compares two files; the name of the tensor in a .npy is that of the file.
func sameTensors(t *testing.T, in, out string) {
	t.Helper()
	want, got := contents(t, in), contents(t, out)
	if len(want) != len(got) {
		t.Fatalf("%d tensors became %d", len(want), len(got))
	}
	for name, w := range want {
		g, ok := got[name]
		if !ok && filepath.Ext(out) == ".npy" {
			g = got["x"]
		}
		if g.dtype != w.dtype || !slices.Equal(g.shape, w.shape) || !bytes.Equal(g.data, w.data) {
			t.Errorf("%s: %v%v became %v%v, or other elements", name, w.dtype, w.shape, g.dtype, g.shape)
		}
	}
}

type content struct {
	dtype core.DType
	shape []int64
	data  []byte // row-major
}

// contents reads a file's tensors through its row-major form as .safetensors.
func contents(t *testing.T, path string) map[string]content {
	t.Helper()
	f, err := tensorfile.Open(path, tensorfile.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := make(map[string]content)
	for _, info := range f.Tensors() {
		x, err := f.Tensor(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		var file bytes.Buffer
		if err := tensorfile.Write(t.Context(), &file, tensorfile.Safetensors, []tensorfile.Named{{Name: "x", Tensor: x}}, tensorfile.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		all[info.Name] = content{info.DType, info.Shape, file.Bytes()[file.Len()-int(info.Bytes):]}
	}
	return all
}

func TestMetadataTravelsWithSafetensors(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.safetensors")
	if o := dlx(t, "move", tensors, "--via", "cpu", "--out", out); o.code != exitOK {
		t.Fatal(o.stderr)
	}
	if r := decode[inspectResult](t, dlx(t, "inspect", out, "--json"), "inspect"); r.Metadata["source"] == "" {
		t.Errorf("metadata %v", r.Metadata)
	}
}

// damaging makes devices that lose all elements that come from the host.
func damaging(b core.Backend) core.Backend {
	return wraptest.Backend{Backend: b, FromHost: func(src *core.Tensor) (*core.Tensor, error) {
		zeros, err := core.FromSlice(make([]uint8, src.NumBytes()))
		if err != nil {
			return nil, err
		}
		defer zeros.Close()
		b, err := zeros.Buffer()
		if err != nil {
			return nil, err
		}
		return core.NewTensor(b, core.Spec{DType: src.DType(), Shape: src.Shape()})
	}}
}

func TestAMismatchIsReportedAndNothingIsWritten(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.npz")
	simulated := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})
	o := dlxWith(t, t.Context(), []core.Backend{cpu.New(), damaging(simulated)},
		"move", archive, "--via", "cpu,ext_dev:0,cpu", "--verify", "--out", out, "--json")
	r := decode[moveResult](t, o, "move")
	if o.code != exitMismatch || *r.Verified || r.Out != "" {
		t.Errorf("exit code %d, verified %v, out %q", o.code, *r.Verified, r.Out)
	}
	if len(r.Tensors) != 3 {
		t.Fatalf("%d tensors are reported, want all 3", len(r.Tensors))
	}
	first := r.Tensors[0]
	if first.Mismatch == nil || first.Mismatch.Hop != 2 || !slices.Equal(first.Mismatch.Index, []int64{0, 0, 1}) || len(first.Hops) != 2 {
		t.Errorf("mismatch %+v after %d hops", first.Mismatch, len(first.Hops))
	}
	if want := "3 of 3 tensors arrived damaged"; !strings.Contains(o.stderr, want) {
		t.Errorf("stderr does not say %q:\n%s", want, o.stderr)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("damaged tensors were written: %v", err)
	}

	text := dlxWith(t, t.Context(), []core.Backend{cpu.New(), damaging(simulated)}, "move", archive, "--via", "ext_dev:0", "--verify")
	for _, want := range []string{"NO", `"mean" differs`, `"first" differs`, `"target" differs`} {
		if text.code != exitMismatch || !strings.Contains(text.stdout, want) {
			t.Errorf("exit code %d, no %q in\n%s", text.code, want, text.stdout)
		}
	}
}

func TestVerifyComparesTheChecksumsOfAnArchive(t *testing.T) {
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	all := decode[inspectResult](t, dlx(t, "inspect", archive, "--json"), "inspect").Tensors
	first := all[slices.IndexFunc(all, func(x tensorResult) bool { return x.Name == "first" })]
	data[first.Offset+5] ^= 1
	path := filepath.Join(t.TempDir(), "x.npz")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	o := dlx(t, "move", path, "--via", "cpu", "--tensor", "first", "--verify")
	if !first.InPlace || o.code != exitFailed || !strings.Contains(o.stderr, "its data is damaged") {
		t.Errorf("in place: %v; %+v", first.InPlace, o)
	}
}
