package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// get returns the body that a URL answers with, and its type.
func get(t *testing.T, url string, want int) (body, kind string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != want {
		t.Fatalf("%s: %s, %v", url, answer.Status, err)
	}
	return string(text), answer.Header.Get("Content-Type")
}

// scrapeMetrics reads the metrics as Prometheus does.
func scrapeMetrics(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	text, _ := get(t, url+"metrics", http.StatusOK)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return families
}

// movedTo is the number of bytes that were moved to a device.
func movedTo(families map[string]*dto.MetricFamily, to string) (sum float64) {
	for _, m := range families["dlx_moved_bytes_total"].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "to" && label.GetValue() == to {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestServeMetrics(t *testing.T) {
	registry := all.New()
	stop, url, err := serveMetrics(t.Context(), ":0", registry, core.ReadMetrics)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }()
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("without a host the server is at %s", url)
	}
	before := movedTo(scrapeMetrics(t, url), "cpu")
	d, err := registry.Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	x, err := core.FromSlice(make([]int64, 125))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, _, err := exchange.To(t.Context(), x, d, exchange.Options{Copy: exchange.Always})
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	families := scrapeMetrics(t, url)
	if moved := movedTo(families, "cpu") - before; moved != 1000 {
		t.Errorf("%v bytes were moved to the CPU, want 1000", moved)
	}
	if f := families["dlx_live_bytes"]; f.GetType() != dto.MetricType_GAUGE || f.GetHelp() == "" {
		t.Errorf("dlx_live_bytes is %v", f)
	}

	text, _ := get(t, url+"debug/vars", http.StatusOK)
	var variables struct {
		DLX core.Metrics `json:"dlx"`
	}
	if err := json.Unmarshal([]byte(text), &variables); err != nil || len(variables.DLX.Devices) == 0 {
		t.Errorf("%v: %s", err, text)
	}
	page, kind := get(t, url, http.StatusOK)
	if !strings.Contains(page, `href="/metrics"`) || !strings.Contains(page, `href="/debug/vars"`) || !strings.Contains(page, "Backends: cpu") || kind != "text/html; charset=utf-8" {
		t.Errorf("the page is %s: %s", kind, page)
	}
	get(t, url+"other", http.StatusNotFound)

	port := url[strings.LastIndex(url, ":") : len(url)-1]
	if _, _, err := serveMetrics(t.Context(), port, nil, core.ReadMetrics); !errors.Is(err, core.ErrExists) || !strings.Contains(err.Error(), "another program uses port "+port[1:]) {
		t.Errorf("a port in use: %v", err)
	}
	for range 2 {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	again, _, err := serveMetrics(t.Context(), port, nil, core.ReadMetrics) // the port is free again
	if err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
}

// The server ends with the command.
func TestServeMetricsEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stop, url, err := serveMetrics(ctx, "0", nil, core.ReadMetrics)
	if err != nil {
		t.Fatal(err)
	}
	get(t, url, http.StatusOK)
	cancel()
	if err := stop(); err != nil { // waits until it has ended
		t.Error(err)
	}
	if c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")); err == nil {
		_ = c.Close()
		t.Error("the server is there after its context has ended")
	}
}

func TestMetricsAddress(t *testing.T) {
	lookup := func(_ context.Context, _, host string) ([]netip.Addr, error) {
		switch host {
		case "localhost":
			return []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1"), netip.MustParseAddr("::1")}, nil
		case "public":
			return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")}, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: host}
	}
	for address, want := range map[string]string{
		":9100": "127.0.0.1:9100", "9100": "127.0.0.1:9100", "127.0.0.1:1": "127.0.0.1:1", "127.9.9.9:1": "127.9.9.9:1",
		"[::1]:80": "[::1]:80", "0.0.0.0:9100": "0.0.0.0:9100", "192.0.2.1:9100": "192.0.2.1:9100",
		"localhost:9100": "127.0.0.1:9100",
	} {
		if got, err := metricsAddress(t.Context(), address, lookup); err != nil || got != netip.MustParseAddrPort(want) {
			t.Errorf("%q is %v, %v; want %s", address, got, err, want)
		}
	}
	for address, want := range map[string]string{
		"": "the port must be", ":": "the port must be", ":http": "the port must be", ":65536": "the port must be", ":-1": "the port must be",
		"::1:80": "not a host and a port", "*:9100": "no computer of the name", "nowhere:9100": "no computer of the name",
		"public:9100": `"public" is 192.0.2.1, which other computers can reach; to let them read the metrics, name that IP address; write :PORT, such as :9100`,
	} {
		if _, err := metricsAddress(t.Context(), address, lookup); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
}

func TestMetricsFlag(t *testing.T) {
	var address string
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	metricsFlag(flags, &address)
	if err := flags.Parse([]string{"--metrics", ":9100"}); err != nil || address != ":9100" {
		t.Error(address, err)
	}
	if help := flags.FlagUsages(); !strings.Contains(help, "--metrics address") || !strings.Contains(help, "other computers can connect only if") {
		t.Error(help)
	}
}

// The counts of processes that have ended stay, and what they had open does not.
func TestMetricsOfProcesses(t *testing.T) {
	id := core.DeviceID{Type: core.DeviceCUDA, Index: 3}
	worker := func(n int64) core.Metrics {
		return core.Metrics{
			Devices: []core.DeviceMetrics{{Device: id, Allocs: n, AllocatedBytes: 100 * n, Tensors: 1, Buffers: 1, Opens: n, HostWaits: n}},
			Moves:   []core.MoveMetrics{{From: core.CPU, To: id, Mechanism: "direct", Moves: n, Bytes: n}},
		}
	}
	var p processMetrics
	for _, step := range []struct {
		id   int
		n    int64
		want core.DeviceMetrics
	}{
		{1, 2, core.DeviceMetrics{Allocs: 2, AllocatedBytes: 200, Tensors: 1, Buffers: 1, Opens: 2, HostWaits: 2}},
		{1, 3, core.DeviceMetrics{Allocs: 3, AllocatedBytes: 300, Tensors: 1, Buffers: 1, Opens: 3, HostWaits: 3}}, // the same process, later
		{2, 1, core.DeviceMetrics{Allocs: 4, AllocatedBytes: 400, Frees: 3, FreedBytes: 300, Tensors: 1, Buffers: 1, Opens: 4, Closes: 3, HostWaits: 4}},
	} {
		p.note(step.id, worker(step.n))
		step.want.Device = id
		m := p.read()
		if i := slices.IndexFunc(m.Devices, func(d core.DeviceMetrics) bool { return d.Device == id }); i < 0 || m.Devices[i] != step.want {
			t.Errorf("%+v, want %+v", m.Devices, step.want)
		}
		want := core.MoveMetrics{From: core.CPU, To: id, Mechanism: "direct", Moves: step.want.Allocs, Bytes: step.want.Allocs}
		if !slices.Contains(m.Moves, want) {
			t.Errorf("%+v, want %+v", m.Moves, want)
		}
	}
}

// Memory of the host that commands allocate counts in the metrics.
func TestWhatCommandsAllocateIsCounted(t *testing.T) {
	onHost := func() core.DeviceMetrics {
		for _, d := range core.ReadMetrics().Devices {
			if d.Device == core.CPU {
				return d
			}
		}
		return core.DeviceMetrics{}
	}
	const elements = 1797 * 64 // of digits.npy, of 8 bytes each
	for _, c := range []struct {
		name  string
		args  []string
		bytes int64
	}{
		{"convert", []string{"convert", digits, filepath.Join(t.TempDir(), "x.npy"), "--dtype", "float32"}, 4 * elements},
		{"move", []string{"move", digits, "--via", "cpu,ext_dev:0", "--out", filepath.Join(t.TempDir(), "x.npy")}, 8 * elements},
	} {
		before := onHost()
		if o := dlx(t, c.args...); o.code != exitOK {
			t.Fatalf("%s: %+v", c.name, o)
		}
		after := onHost()
		if allocs, bytes := after.Allocs-before.Allocs, after.AllocatedBytes-before.AllocatedBytes; allocs != 1 || bytes != c.bytes {
			t.Errorf("%s: %d allocations of %d bytes, want 1 of %d", c.name, allocs, bytes, c.bytes)
		}
		if before.LiveBytes() != after.LiveBytes() {
			t.Errorf("%s: %d bytes are live, and were %d", c.name, after.LiveBytes(), before.LiveBytes())
		}
	}
}
