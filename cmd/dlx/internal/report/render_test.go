package report_test

import (
	"os"
	"testing"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/cmd/dlx/internal/report"
	"github.com/dlx-go/dlx/cmd/dlx/internal/report/reporttest"
)

func TestRenderTmp(t *testing.T) {
	for n, r := range map[string]benchmarks.Report{"full": reporttest.Report(), "large": reporttest.Large(500, 2000), "large30": reporttest.Large(500, 30)} {
		f, _ := os.Create("/tmp/out/" + n + ".html")
		if err := report.WriteBench(f, report.Program{Version: "v0.9.0", Go: "go1.25", Platform: "linux/amd64"}, r, func(r benchmarks.Report) any { return r }); err != nil {
			t.Error(err)
		}
		f.Close()
	}
}
