package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/perf/benchfmt"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/inventory"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// hostile is a name with all that disturbs a format.
const hostile = "a,\"b\"\n\r\n\t'c'\\ \x00\xff\u2028{x=\"1\"} # EOF <script> 10%/ü=1-2"

var (
	vulkan0 = core.DeviceID{Type: core.DeviceVulkan}
	vulkan1 = core.DeviceID{Type: core.DeviceVulkan, Index: 1}
	cuda0   = core.DeviceID{Type: core.DeviceCUDA}
)

func device(id core.DeviceID, name string) facts.Device {
	return facts.Device{Device: inventory.Device{Properties: core.Properties{ID: id, Name: name, Driver: "550.1", PCI: "0000:65:00.0"}}}
}

// bandwidth is a result of a copy of 1000 bytes.
func bandwidth(name, family string, from, to benchmarks.Ends, size int64, ns ...float64) benchmarks.Result {
	s := slices.Clone(ns)
	slices.Sort(s)
	m := s[len(s)/2]
	return benchmarks.Result{
		Name: name, Family: family, Kind: benchmarks.Bandwidth, From: from, To: to, Memory: "pinned", Size: size, Status: benchmarks.OK, Bytes: 1000, Clock: benchmarks.HostClock,
		Series: benchmarks.Series{Iterations: 7, Times: ns, Blocks: []int{1, len(ns) - 1}, Min: s[0], Median: m, Max: s[len(s)-1], CV: 0.1, GBPerSecond: 1000 / m},
	}
}

func sample() benchmarks.Report {
	simulated := device(vulkan1, "dlx simulated")
	simulated.Simulated = true
	one := bandwidth("host_to_device_memcpy_ce/vulkan:1/1KiB", "host_to_device_memcpy_ce", benchmarks.Ends{core.CPU}, benchmarks.Ends{vulkan1}, 1<<10, 10, 10)
	one.Simulated = true
	bad := bandwidth(hostile, hostile, benchmarks.Ends{vulkan0}, benchmarks.Ends{cuda0}, 1<<10, 5, 5)
	bad.Times = []float64{math.NaN(), math.Inf(1), 0, -3, 5}
	bad.Min, bad.Max, bad.P95, bad.CV, bad.ClockError, bad.Way = math.NaN(), math.Inf(1), math.Inf(-1), math.NaN(), math.Inf(1), hostile
	return benchmarks.Report{
		Date: time.Unix(1700000000, 0).UTC(),
		Host: facts.Machine{
			Platform: "linux/amd64", CPU: hostile, CPUs: 2, Load: []float64{0.5, math.Inf(1)}, Caches: []facts.Cache{{Level: 1, Kind: "data", Bytes: 1 << 15}}, Before: facts.Reading{MHz: []float64{2400.4}},
			Devices:  []facts.Device{device(core.CPU, "cpu"), device(cuda0, "card"), device(vulkan0, hostile), simulated, {Missing: "none"}},
			Versions: map[string]string{"cuda": "12.9"},
		},
		Cases: []benchmarks.Result{
			bandwidth("host_to_device_memcpy_ce/cuda:0/1KiB", "host_to_device_memcpy_ce", benchmarks.Ends{core.CPU}, benchmarks.Ends{cuda0}, 1<<10, 100, 110, 120),
			bandwidth("host_to_device_memcpy_ce/cuda:0/64MiB", "host_to_device_memcpy_ce", benchmarks.Ends{core.CPU}, benchmarks.Ends{cuda0}, 64<<20, 40, 40, 40),
			bandwidth("host_to_device_memcpy_ce/vulkan:0/64MiB", "host_to_device_memcpy_ce", benchmarks.Ends{core.CPU}, benchmarks.Ends{vulkan0}, 64<<20, 80, 80, 80),
			one,
			bandwidth("device_to_device_memcpy_read_ce/cuda:0/vulkan:0", "device_to_device_memcpy_read_ce", benchmarks.Ends{cuda0}, benchmarks.Ends{vulkan0}, 64<<20, 20, 20),
			bandwidth("device_to_device_memcpy_write_ce/cuda:0/vulkan:0", "device_to_device_memcpy_write_ce", benchmarks.Ends{cuda0}, benchmarks.Ends{vulkan0}, 64<<20, 25, 25),
			bad,
			{Name: "waived", Family: "device_to_host_memcpy_sm", Kind: benchmarks.Bandwidth, From: benchmarks.Ends{cuda0}, To: benchmarks.Ends{core.CPU}, Status: benchmarks.Unsupported, Reason: hostile},
			{Name: "failed", Family: "device_local_copy", Kind: benchmarks.Bandwidth, From: benchmarks.Ends{cuda0}, To: benchmarks.Ends{cuda0}, Status: benchmarks.Failed, Reason: hostile},
			{Name: "call/" + hostile, Kind: benchmarks.Overhead, Status: benchmarks.OK, Series: benchmarks.Series{Iterations: 1, Times: []float64{3}, Min: 3, Median: 3, Max: 3}},
			{Name: "zero", Status: benchmarks.OK},
			{Name: "nan", Status: benchmarks.OK, Series: benchmarks.Series{Times: []float64{math.NaN()}, Median: math.NaN()}},
		},
	}
}

func write(t *testing.T, f func(io.Writer, Program, benchmarks.Report) error, r benchmarks.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := f(&b, Program{Version: "v1", Revision: hostile}, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEveryFormatIsUTF8AndEndsWithALine(t *testing.T) {
	for _, f := range Formats {
		for name, r := range map[string]benchmarks.Report{"sample": sample(), "empty": {}} {
			text := write(t, f.Write, r)
			if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\u2028") || (text != "" && !strings.HasSuffix(text, "\n")) {
				t.Errorf("%s of %s: %q", f.Name, name, text)
			}
			if name == "sample" {
				marked := false
				for l := range strings.Lines(text) {
					if strings.Contains(l, "host_to_device_memcpy_ce/vulkan:1") || strings.Contains(l, "BenchmarkHostToDeviceMemcpyCe/vulkan:1") {
						marked = true
						if !strings.Contains(l, simulated) && !strings.Contains(l, ",true") && !strings.Contains(l, `simulated="true"`) {
							t.Errorf("%s does not mark a simulated device: %s", f.Name, l)
						}
					}
				}
				if !marked && f.Name != "nvbandwidth" {
					t.Errorf("%s has no simulated case", f.Name)
				}
			}
			for _, word := range []string{"NaN", "Inf", "inf,"} {
				if strings.Contains(text, word) {
					t.Errorf("%s of %s has %s:\n%s", f.Name, name, word, text)
				}
			}
		}
	}
}

type full struct{ left int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestEveryFormatReportsAFullDisk(t *testing.T) {
	for _, f := range Formats {
		n := len(write(t, f.Write, sample()))
		for _, left := range []int{0, n / 2, n - 1} {
			if err := f.Write(&full{left}, Program{Version: "v1", Revision: hostile}, sample()); !errors.Is(err, errFull) {
				t.Errorf("%s with room for %d of %d bytes: %v", f.Name, left, n, err)
			}
		}
	}
}

func TestCSV(t *testing.T) {
	r := sample()
	rows, err := csv.NewReader(strings.NewReader(write(t, CSV, r))).ReadAll()
	if err != nil || len(rows) != 1+len(r.Cases) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	at := func(row int, name string) string { return rows[row][slices.Index(rows[0], name)] }
	for name, want := range map[string]string{
		"date": "2023-11-14T22:13:20Z", "version": "v1", "name": r.Cases[0].Name, "from": "cpu", "to": "cuda:0", "size": "1024", "samples": "3", "median_ns": "110", "p99_ns": "", "simulated": "false", "slower": "",
	} {
		if got := at(1, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := at(7, "name"); got != line(hostile) || strings.ContainsAny(got, "\r\n") {
		t.Errorf("%q", got)
	}
	if at(7, "max_ns") != "" || at(4, "simulated") != "true" || at(9, "status") != "error" {
		t.Errorf("%q", rows)
	}
	r.Cases[0].Change = &benchmarks.Change{Median: 99, Ratio: 0.9, P: 0.001, Significant: true, Slower: true}
	if rows, _ := csv.NewReader(strings.NewReader(write(t, CSV, r))).ReadAll(); rows[1][slices.Index(rows[0], "slower")] != "true" {
		t.Errorf("%q", rows[1])
	}
}

func TestSamples(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(write(t, Samples, sample()))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"name", "baseline", "simulated", "block", "sample", "iterations", "time_ns"},
		{"host_to_device_memcpy_ce/cuda:0/1KiB", "", "false", "0", "0", "7", "100"},
		{"host_to_device_memcpy_ce/cuda:0/1KiB", "", "false", "1", "1", "7", "110"},
		{"host_to_device_memcpy_ce/cuda:0/1KiB", "", "false", "1", "2", "7", "120"},
	}
	if !reflect.DeepEqual(rows[:4], want) {
		t.Errorf("%q", rows[:4])
	}
}

func TestNVBandwidth(t *testing.T) {
	var doc struct {
		Root map[string]any `json:"nvbandwidth"`
	}
	if err := json.Unmarshal([]byte(write(t, NVBandwidth, sample())), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Root["version"] != "dlx v1" || doc.Root["CUDA Runtime Version"] != 12090.0 || doc.Root["Driver Version"] != "550.1" || doc.Root["warning"] != "3 cases of dlx are left out: they have no devices at their ends" {
		t.Errorf("%v", doc.Root)
	}
	devices := doc.Root["GPU Device list"].([]any)
	if len(devices) != 3 || devices[0] != "0: card (0000:65:00.0): (cuda:0)" || !strings.HasSuffix(devices[2].(string), simulated) {
		t.Errorf("%q", devices)
	}
	type test = map[string]any
	tests := make(map[string]test)
	for _, one := range doc.Root["testcases"].([]any) {
		c := one.(test)
		if tests[c["name"].(string)] != nil {
			t.Errorf("%v is there twice", c["name"])
		}
		tests[c["name"].(string)] = c
	}
	check := func(name, status string, sum any, matrix ...[]any) {
		t.Helper()
		c := tests[name]
		var want any
		if matrix != nil {
			var rows []any
			for _, row := range matrix {
				rows = append(rows, row)
			}
			want = rows
		}
		if c["status"] != status || c["sum"] != sum || !reflect.DeepEqual(c["bandwidth_matrix"], want) {
			t.Errorf("%s: %v", name, c)
		}
	}
	na := "N/A"
	check("host_to_device_memcpy_ce", "Passed", 37.5, []any{"25", "12.5", na})
	check("host_to_device_memcpy_ce/pinned/1024/bandwidth", "Passed", 1000.0/110, []any{"9.09091", na, na})
	check("host_to_device_memcpy_ce/pinned/1024/bandwidth SIMULATED", "Passed", 100.0, []any{na, na, "100"})
	check("device_to_device_memcpy_read_ce", "Passed", 50.0, []any{na, na, na}, []any{"50", na, na}, []any{na, na, na})
	check("device_to_device_memcpy_write_ce", "Passed", 40.0, []any{na, "40", na}, []any{na, na, na}, []any{na, na, na})
	check("device_to_host_memcpy_sm", "Waived", nil)
	check("device_local_copy", "Error", nil)
	if got := tests["host_to_device_memcpy_ce"]["bandwidth_description"]; got != "host_to_device_memcpy_ce CPU(row) -> GPU(column) bandwidth (GB/s)" {
		t.Errorf("%v", got)
	}
}

func TestCUDAVersion(t *testing.T) {
	for s, want := range map[string]int{"12.9": 12090, "13.0": 13000, "": 0, "x.y": 0, "12": 0, "-1.2": 0} {
		if got := cudaVersion(s); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}

// The fields that tools/compare.py of Google Benchmark needs.
func TestGoogleBenchmark(t *testing.T) {
	var doc struct {
		Context    map[string]any
		Benchmarks []map[string]any
	}
	if err := json.Unmarshal([]byte(write(t, GoogleBenchmark, sample())), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Context["json_schema_version"] != 1.0 || doc.Context["num_cpus"] != 2.0 || doc.Context["mhz_per_cpu"] != 2400.0 || !reflect.DeepEqual(doc.Context["load_avg"], []any{0.5}) {
		t.Errorf("%v", doc.Context)
	}
	counts := make(map[string]int)
	for _, b := range doc.Benchmarks {
		counts[b["name"].(string)]++
		for _, field := range []string{"name", "run_name", "run_type", "iterations", "real_time", "cpu_time", "time_unit", "threads", "repetitions", "family_index", "per_family_instance_index"} {
			if b[field] == nil {
				t.Errorf("%v has no %s", b["name"], field)
			}
		}
		if (b["run_type"] == "aggregate") != (b["aggregate_name"] != nil) || (b["run_type"] == "iteration") != (b["repetition_index"] != nil) {
			t.Errorf("%v", b)
		}
	}
	first := "host_to_device_memcpy_ce/cuda:0/1KiB"
	if counts[first] != 3 || counts[first+"_median"] != 1 || counts[first+"_cv"] != 1 || counts["host_to_device_memcpy_ce/vulkan:1/1KiB/SIMULATED"] != 2 || counts["failed"] != 1 {
		t.Errorf("%v", counts)
	}
	b := doc.Benchmarks[0]
	if b["real_time"] != 100.0 || b["bytes_per_second"] != 1e10 || b["iterations"] != 7.0 || b["repetitions"] != 3.0 {
		t.Errorf("%v", b)
	}
	for _, b := range doc.Benchmarks {
		if b["name"] == "failed" && (b["error_occurred"] != true || b["error_message"] != line(hostile)) {
			t.Errorf("%v", b)
		}
		if b["name"] == "waived" && (b["skipped"] != true || b["skip_message"] == "") {
			t.Errorf("%v", b)
		}
	}
}

func TestGoBenchmarkIsWhatGoReads(t *testing.T) {
	text := write(t, GoBenchmark, sample())
	reader := benchfmt.NewReader(strings.NewReader(text), "report")
	counts := make(map[string]int)
	for reader.Scan() {
		r, ok := reader.Result().(*benchfmt.Result)
		if !ok {
			t.Fatalf("%v in\n%s", reader.Result(), text)
		}
		counts[string(r.Name)]++
		if string(r.Name) == "HostToDeviceMemcpyCe/cuda:0/1KiB-2" && counts[string(r.Name)] == 1 {
			seconds, _ := r.Value("sec/op")
			rate, _ := r.Value("B/s")
			if math.Abs(seconds-100e-9) > 1e-15 || math.Abs(rate-1e10) > 1 || r.Iters != 7 || r.GetConfig("goos") != "linux" || r.GetConfig("dlx") != "v1" {
				t.Errorf("%+v", r)
			}
		}
	}
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	if counts["HostToDeviceMemcpyCe/cuda:0/1KiB-2"] != 3 || counts["HostToDeviceMemcpyCe/vulkan:1/1KiB/SIMULATED-2"] != 2 || len(counts) != 8 {
		t.Errorf("%v in\n%s", counts, text)
	}
}

func TestBenchstatComparesTwoReports(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command is not there to run benchstat: ", err)
	}
	report := func(factor float64) benchmarks.Report {
		var ns []float64
		for i := range 10 {
			ns = append(ns, factor*(1000+float64(i)))
		}
		return benchmarks.Report{Host: facts.Machine{Platform: "linux/amd64", CPUs: 2}, Cases: []benchmarks.Result{bandwidth("host_to_device_memcpy_ce/vulkan:0", "", nil, nil, 0, ns...)}}
	}
	folder := t.TempDir()
	for name, factor := range map[string]float64{"old": 1, "new": 1.5} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(write(t, GoBenchmark, report(factor))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), goTool, "run", "golang.org/x/perf/cmd/benchstat", filepath.Join(folder, "old"), filepath.Join(folder, "new")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "HostToDeviceMemcpyCe/vulkan:0-2") || !strings.Contains(string(out), "+50.00% (p=0.000 n=10)") || !strings.Contains(string(out), "MB/s") && !strings.Contains(string(out), "B/s") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A parser as strict as the format's grammar for what is written here.
func TestOpenMetrics(t *testing.T) {
	for name, r := range map[string]benchmarks.Report{"sample": sample(), "empty": {}, "twice": {Cases: slices.Repeat(sample().Cases[:1], 2)}} {
		text := write(t, OpenMetrics, r)
		if !strings.HasSuffix(text, "\n# EOF\n") || strings.Count(text, "\n# EOF\n") != 1 {
			t.Errorf("%s: it does not end once: %s", name, text)
		}
		seen, family := make(map[string]bool), ""
		for l := range strings.Lines(text) {
			if kind, ok := strings.CutPrefix(l, "# TYPE "); ok {
				family = strings.Fields(kind)[0]
				continue
			}
			if strings.HasPrefix(l, "#") {
				continue
			}
			series, value, labels, err := parse(strings.TrimSuffix(l, "\n"))
			if err != nil || !strings.HasPrefix(series, family) || seen[series+labels] || math.IsNaN(value) {
				t.Errorf("%s: %v in %s", name, err, l)
			}
			seen[series+labels] = true
		}
		if name == "sample" && !strings.Contains(text, `dlx_bench_time_seconds{case="host_to_device_memcpy_ce/cuda:0/1KiB",family="host_to_device_memcpy_ce",from="cpu",to="cuda:0",memory="pinned",simulated="false",statistic="median"} 1.1e-07`) {
			t.Errorf("%s", text)
		}
	}
}

// parse parses a sample.
func parse(l string) (name string, value float64, labels string, err error) {
	end := strings.IndexAny(l, "{ ")
	if end < 0 {
		return "", 0, "", errors.New("no name")
	}
	name, rest := l[:end], l[end:]
	if rest[0] == '{' {
		quoted, escaped, at := false, false, -1
		for i := 1; i < len(rest) && at < 0; i++ {
			switch c := rest[i]; {
			case escaped:
				if !strings.ContainsRune(`\"n`, rune(c)) {
					return "", 0, "", fmt.Errorf("escaped %q", c)
				}
				escaped = false
			case c == '\\' && quoted:
				escaped = true
			case c == '"':
				quoted = !quoted
			case c == '}' && !quoted:
				at = i
			}
		}
		if at < 0 {
			return "", 0, "", errors.New("labels do not end")
		}
		labels, rest = rest[:at+1], rest[at+1:]
	}
	_, err = fmt.Sscanf(rest, " %g\n", &value)
	if strings.Count(rest, " ") != 1 {
		err = errors.New("more than a value")
	}
	return name, value, labels, err
}

func TestNVBandwidthHasOneValueForEachPlace(t *testing.T) {
	r := benchmarks.Report{Cases: []benchmarks.Result{
		bandwidth("f/cuda:0", "f", benchmarks.Ends{core.CPU}, benchmarks.Ends{cuda0}, 1000, 10, 10),
		bandwidth("f/vulkan:0", "f", benchmarks.Ends{core.CPU}, benchmarks.Ends{vulkan0}, 1000, 20, 20),
		bandwidth("f/cuda:0/pinned", "f", benchmarks.Ends{core.CPU}, benchmarks.Ends{cuda0}, 1000, 40, 40),
	}}
	var b bytes.Buffer
	if err := NVBandwidth(&b, Program{}, r); err != nil {
		t.Fatal(err)
	}
	var doc nvReport
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	tests := doc.Root.Tests
	if len(tests) != 2 || tests[0].Name != "f" || *tests[0].Sum != 150 || *tests[0].Min != 50 || *tests[1].Sum != 25 || tests[1].Name == "f" {
		t.Errorf("%+v", tests)
	}
}
