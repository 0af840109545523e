package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/core"
)

// sweep has two paths with several sizes, one of them simulated.
func sweep() (r benchmarks.Report) {
	for i, to := range []core.DeviceID{{Type: core.DeviceCUDA}, {Type: core.DeviceVulkan}} {
		for exponent := range 12 {
			size := int64(1) << (10 + 2*exponent)
			r.Cases = append(r.Cases, benchmarks.Result{Name: fmt.Sprint("host_to_device_memcpy_ce/", to, "/", size), Family: "host_to_device_memcpy_ce", Kind: benchmarks.Bandwidth, Status: benchmarks.OK,
				From: benchmarks.Ends{core.CPU}, To: benchmarks.Ends{to}, Size: size, Bytes: size, Simulated: i == 1, Series: benchmarks.Series{Median: 1000, GBPerSecond: 20 / (1 + 1e6/float64(size)/float64(i+1))}})
		}
	}
	return r
}

// single has cases of one size, and one whose name is not XML.
func single() (r benchmarks.Report) {
	for i := range 3 {
		r.Cases = append(r.Cases, benchmarks.Result{Name: fmt.Sprintf("copy/<script>&%d", i), Status: benchmarks.OK, Bytes: 1 << 20, Series: benchmarks.Series{Median: 500, GBPerSecond: float64(i + 1)}})
	}
	return r
}

// times has cases that move no bytes.
func times() (r benchmarks.Report) {
	return benchmarks.Report{Cases: []benchmarks.Result{
		{Name: "call/empty", Status: benchmarks.OK, Series: benchmarks.Series{Median: 12}},
		{Name: "call/none", Status: benchmarks.Unsupported}}}
}

func TestSVGHasTheLabels(t *testing.T) {
	for _, c := range []struct {
		report benchmarks.Report
		labels []string
	}{
		{sweep(), []string{"host_to_device_memcpy_ce", "cpu to cuda:0", "cpu to vulkan:0 (simulated)", "GB/s", "size", "1 KiB", "4 MiB", "10"}},
		{single(), []string{"Bandwidth", "copy/<script>&0", "copy/<script>&2", "GB/s"}},
		{times(), []string{"Time of one operation", "call/empty", "ns, median"}},
	} {
		var b bytes.Buffer
		if err := Write(&b, "svg", c.report); err != nil {
			t.Fatal(err)
		}
		texts := map[string]bool{}
		for d := xml.NewDecoder(&b); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if text, ok := token.(xml.CharData); ok {
				texts[strings.TrimSpace(string(text))] = true
			}
		}
		for _, label := range c.labels {
			if !texts[label] {
				t.Errorf("no label %q in %v", label, texts)
			}
		}
		if texts["call/none"] {
			t.Error("a case that was not measured is drawn")
		}
	}
}

func TestPNGHasMoreThanBackground(t *testing.T) {
	for _, r := range []benchmarks.Report{sweep(), single(), times()} {
		var b bytes.Buffer
		if err := Write(&b, "png", r); err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		counts := map[color.Color]int{}
		for y := range picture.Bounds().Dy() {
			for x := range picture.Bounds().Dx() {
				counts[picture.At(x, y)]++
			}
		}
		if picture.Bounds().Dx() < 600 || counts[colors[0]] < 100 {
			t.Errorf("%v with %d colours, and %d pixels in the first line's", picture.Bounds(), len(counts), counts[colors[0]])
		}
	}
}

func TestErrors(t *testing.T) {
	if err := Write(io.Discard, "svg", benchmarks.Report{}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("nothing to draw: %v", err)
	}
	if err := Write(io.Discard, "pdf", sweep()); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("pdf: %v", err)
	}
	for path, want := range map[string]string{"a.svg": "svg", "b.PNG": "png", "c.pdf": "", "svg": "", "": ""} {
		if format, err := Format(path); format != want || (want == "") != errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %q, %v", path, format, err)
		}
	}
}
