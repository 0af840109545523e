package report

import (
	"bytes"
	"testing"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{"WriteBench": WriteBench, "WriteDevices": WriteDevices, "WritePlan": WritePlan},
		new(bytes.Buffer), func(benchmarks.Report) any { return nil })
}
