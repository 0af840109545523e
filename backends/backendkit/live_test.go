package backendkit_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

var counted = backendkit.NewLiveCounter("backendkit.Test")

func TestLiveReportsCounts(t *testing.T) {
	backendkit.CountLive("backendkit.Function", func() int64 { return 0 })
	counted.Add(3)
	counted.Add(-1)
	live := core.Live()
	counted.Add(-2)
	if live["backendkit.Test"] != 2 {
		t.Errorf("Live reports %d, want 2", live["backendkit.Test"])
	}
	if n, ok := live["backendkit.Function"]; !ok || n != 0 {
		t.Errorf("Live reports %d, %v for what CountLive registered; want 0, true", n, ok)
	}
	if n := core.Live()["backendkit.Test"]; n != 0 {
		t.Errorf("Live reports %d, want 0", n)
	}
}
