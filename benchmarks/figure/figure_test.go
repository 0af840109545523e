package figure

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/core"
)

func bandwidth(name, family string, to int32, size int64) benchmarks.Result {
	return benchmarks.Result{Name: name, Family: family, Kind: benchmarks.Bandwidth, Status: benchmarks.OK, From: benchmarks.Ends{core.CPU}, To: benchmarks.Ends{{Type: core.DeviceCUDA, Index: to}},
		Size: size, Bytes: size, Series: benchmarks.Series{Median: 1, GBPerSecond: 1, Times: []float64{1, 2}}}
}

func TestFamilyAndPath(t *testing.T) {
	for _, c := range []struct {
		result       benchmarks.Result
		family, path string
	}{
		{benchmarks.Result{Name: "copy/contiguous/64KiB"}, "copy/contiguous", ""},
		{benchmarks.Result{Name: "memory/alloc/256B"}, "memory/alloc", ""},
		{benchmarks.Result{Name: "copy/transpose/uint8"}, "copy/transpose/uint8", ""},
		{benchmarks.Result{Name: "call"}, "call", ""},
		{benchmarks.Result{Name: "a/b", Family: "f", From: benchmarks.Ends{core.CPU}, To: benchmarks.Ends{core.CPU}, Memory: "pinned"}, "f", "in cpu, pinned"},
		{bandwidth("x", "f", 1, 1), "f", "cpu to cuda:1"},
		{benchmarks.Result{From: benchmarks.Ends{core.CPU, {Type: core.DeviceCUDA}}, Streams: 4}, "", "from cpu+cuda:0, 4 streams"},
	} {
		if family, path := Family(c.result), Path(c.result); family != c.family || path != c.path {
			t.Errorf("%s: %q and %q, want %q and %q", c.result.Name, family, path, c.family, c.path)
		}
	}
}

func TestBandwidth(t *testing.T) {
	cases := []benchmarks.Result{
		bandwidth("a0/2", "a", 0, 2), bandwidth("a0/1", "a", 0, 1), bandwidth("a1/1", "a", 1, 1), bandwidth("a1/4", "a", 1, 4), bandwidth("a2/4", "a", 2, 4), bandwidth("a3/1", "a", 3, 1), bandwidth("a3/2", "a", 3, 2),
		bandwidth("b/1", "b/x", 0, 1), bandwidth("b/2", "b/x", 0, 2), bandwidth("b/1", "b/y", 0, 1), bandwidth("b/2", "b/y", 0, 2),
		{Name: "unmeasured", Status: benchmarks.Unsupported}}
	charts, rest := Bandwidth(cases, 2)
	var got []string
	for _, c := range charts {
		for _, l := range c.Lines {
			got = append(got, fmt.Sprint(c.Title, " | ", l.Name, " | ", Size(l.Cases[0]), " to ", Size(l.Cases[len(l.Cases)-1])))
		}
	}
	want := []string{"a (1 of 2) | cpu to cuda:0 | 1 to 2", "a (1 of 2) | cpu to cuda:1 | 1 to 4", "a (2 of 2) | cpu to cuda:3 | 1 to 2", "b | b/x, cpu to cuda:0 | 1 to 2", "b | b/y, cpu to cuda:0 | 1 to 2"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if len(rest) != 1 || rest[0].Name != "cpu to cuda:2" || len(rest[0].Cases) != 1 || rest[0].Cases[0].Name != "a2/4" {
		t.Errorf("the rest: %v", rest)
	}
}

func TestLatency(t *testing.T) {
	var cases []benchmarks.Result
	for i, name := range []string{"call/a", "call/b", "wait/1KiB", "wait/2KiB", "wait/4KiB"} {
		cases = append(cases, benchmarks.Result{Name: name, Kind: benchmarks.Latency, Status: benchmarks.OK, Series: benchmarks.Series{Median: float64(i + 1), Times: []float64{1, 2}}})
	}
	cases = append(cases, bandwidth("copy", "copy", 0, 1), benchmarks.Result{Name: "one sample", Status: benchmarks.OK, Series: benchmarks.Series{Times: []float64{1}}})
	var got []string
	for _, c := range Latency(cases, 2) {
		for _, l := range c.Lines {
			got = append(got, c.Title+" | "+l.Name)
		}
	}
	want := []string{"wait (1 of 2) | 1KiB", "wait (1 of 2) | 2KiB", "wait (2 of 2) | 4KiB", "call | call/a", "call | call/b"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCasesOfOnePathThatDifferAreLinesOfTheirOwn(t *testing.T) {
	var cases []benchmarks.Result
	for _, name := range []string{"f/cuda:0", "f/cuda:0/pinned", "f/cuda:0/direct"} {
		for _, kib := range []int64{1, 2} {
			c := bandwidth(fmt.Sprintf("%s/%dKiB", name, kib), "f", 0, kib<<10)
			c.Memory = "pinned"
			cases = append(cases, c)
		}
	}
	charts, _ := Bandwidth(cases, 8)
	var got []string
	for _, l := range charts[0].Lines {
		got = append(got, fmt.Sprint(l.Name, ": ", len(l.Cases)))
	}
	want := []string{"cpu to cuda:0, pinned: 2", "cpu to cuda:0, pinned, direct: 2"} // what was asked for is what was chosen by default
	if !slices.Equal(got, want) || charts[0].Lines[0].Cases[0].Name != "f/cuda:0/1KiB" {
		t.Errorf("%q, want %q", got, want)
	}
	if _, rest := Bandwidth([]benchmarks.Result{cases[0], cases[2]}, 8); len(rest) != 1 || len(rest[0].Cases) != 1 {
		t.Errorf("of one size: %+v", rest)
	}
	streams := bandwidth("s/cuda:0/4", "s", 0, 1)
	streams.Streams = 4
	strided := benchmarks.Result{Name: "copy/transpose/float32", Family: "copy/transpose", From: benchmarks.Ends{core.CPU}, To: benchmarks.Ends{core.CPU}}
	for want, c := range map[string]benchmarks.Result{"cpu to cuda:0, 4 streams": streams, "in cpu, float32": strided} {
		if got := Label(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
