package export

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/benchmarks"
)

// The parser of prometheus_client (PyPI) checks what OpenMetrics demands.
const readMetrics = `
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
families = {f.name: f for f in parse(open(sys.argv[1], encoding="utf-8", newline="").read())}
print(len(families["dlx_bench_status"].samples))
`

func TestPrometheusReadsOpenMetrics(t *testing.T) {
	python := os.Getenv("DLX_PYTHON")
	if python == "" {
		python = filepath.Join("..", "..", ".venv", "bin", "python")
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import prometheus_client").CombinedOutput(); err != nil {
		t.Skipf("prometheus_client is not installed for %s: %v %s", python, err, out)
	}
	for want, r := range map[string]benchmarks.Report{"48\n": sample(), "0\n": {}} {
		path := filepath.Join(t.TempDir(), "metrics")
		if err := os.WriteFile(path, []byte(write(t, OpenMetrics, r)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), python, "-c", readMetrics, path).CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%v: %s", err, out)
		}
	}
}
