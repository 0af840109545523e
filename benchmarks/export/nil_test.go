package export

import (
	"bytes"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{
		"CSV": CSV, "Samples": Samples, "GoBenchmark": GoBenchmark, "GoogleBenchmark": GoogleBenchmark, "NVBandwidth": NVBandwidth, "OpenMetrics": OpenMetrics,
	}, new(bytes.Buffer))
}
