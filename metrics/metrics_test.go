package metrics

import (
	"bytes"
	"encoding/json"
	"errors"
	"expvar"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

func TestMain(m *testing.M) { coretest.Main(m) }

// work moves a tensor of 32 bytes from a Go slice to the CPU by a copy, and fails to move one. The result is open.
func work(t *testing.T) *core.Tensor {
	t.Helper()
	d, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	x, err := core.FromSlice(make([]int32, 8))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, _, err := exchange.To(t.Context(), x, d, exchange.Options{Copy: exchange.Always})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { y.Close() })
	if _, _, err := exchange.To(t.Context(), nil, d, exchange.Options{}); !errors.Is(err, core.ErrInvalid) {
		t.Fatal(err)
	}
	return y
}

// The names, types and texts are as Prometheus' conventions ask.
func TestConventions(t *testing.T) {
	work(t)
	problems, err := testutil.CollectAndLint(NewCollector())
	if err != nil || len(problems) > 0 {
		t.Errorf("%v: %+v", err, problems)
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(NewCollector()); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
	if err := registry.Register(NewCollector()); err == nil {
		t.Error("a registry took two collectors of the same metrics")
	}
}

// valueOf finds the line of a metric in the text format.
func valueOf(t *testing.T, text, metric string) float64 {
	t.Helper()
	var value float64
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, metric+" "); ok {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				t.Fatal(err)
			}
		}
	}
	return value
}

func scrape(t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestHandlerShowsWhatHappened(t *testing.T) {
	before := scrape(t)
	y := work(t)
	after := scrape(t)
	for metric, want := range map[string]float64{
		`dlx_allocations_total{device="cpu"}`:                           1,
		`dlx_allocated_bytes_total{device="cpu"}`:                       32,
		`dlx_live_bytes{device="cpu"}`:                                  32,
		`dlx_tensors{device="cpu"}`:                                     1,
		`dlx_buffers{device="cpu"}`:                                     1,
		`dlx_moves_total{from="cpu",mechanism="direct",to="cpu"}`:       1,
		`dlx_moved_bytes_total{from="cpu",mechanism="direct",to="cpu"}`: 32,
		`dlx_move_errors_total{error="invalid_argument"}`:               1,
		`dlx_lost_tensors_total`:                                        0,
		`dlx_frees_total{device="cpu"}`:                                 0,
	} {
		if got := valueOf(t, after, metric) - valueOf(t, before, metric); got != want {
			t.Errorf("%s rose by %v, want %v", metric, got, want)
		}
	}
	_ = y.Close()
	if got := valueOf(t, scrape(t), `dlx_live_bytes{device="cpu"}`) - valueOf(t, before, `dlx_live_bytes{device="cpu"}`); got != 0 {
		t.Errorf("%v bytes are live after the tensor was closed", got)
	}
}

func TestPublish(t *testing.T) {
	if expvar.Get("dlx") != nil {
		t.Error("the package registers itself")
	}
	if err := Publish("dlx"); err != nil {
		t.Fatal(err)
	}
	if err := Publish("dlx"); !errors.Is(err, core.ErrExists) {
		t.Errorf("a name twice: %v", err)
	}
	if err := Publish(""); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("no name: %v", err)
	}
	work(t)
	var m core.Metrics
	if err := json.Unmarshal([]byte(expvar.Get("dlx").String()), &m); err != nil || len(m.Devices) == 0 || len(m.Moves) == 0 {
		t.Errorf("%v: %+v", err, m)
	}
}

// The table of the documentation has all metrics, with the texts of the code.
func TestDocumentedTable(t *testing.T) {
	const file, begin, end = "../docs/metrics.md", "<!-- table: written by go test ./metrics -run DocumentedTable -update -->\n", "<!-- end of the table -->\n"
	var want strings.Builder
	want.WriteString("\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, x := range table {
		kind := "counter"
		if x.kind == gauge {
			kind = "gauge"
		}
		labels := "none"
		if len(x.labels) > 0 {
			labels = "`" + strings.Join(x.labels, "`, `") + "`"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", x.name, kind, labels, x.help)
	}
	want.WriteString("\n")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := bytes.Cut(text, []byte(begin))
	have, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s has no table between %q and %q", file, begin, end)
	}
	if string(have) == want.String() {
		return
	}
	if !*update {
		t.Fatalf("the table of %s is not that of the code; go test ./metrics -run DocumentedTable -update writes it:\n%s", file, want.String())
	}
	if err := os.WriteFile(file, []byte(string(head)+begin+want.String()+end+string(tail)), 0o644); err != nil {
		t.Fatal(err)
	}
}
