// Package metaltest makes the backend "metal" over a simulated Metal, for tests of what uses the backend. It works on
// every platform, reports code that breaks Metal's rules, and is never in a registry by itself. What it takes to do
// something says nothing of a GPU.
package metaltest

import (
	"math/rand/v2"
	"testing"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/backends/metal/internal/engine"
	"github.com/dlx-go/dlx/backends/metal/internal/fake"
	"github.com/dlx-go/dlx/core"
)

// New returns the backend of a machine with two simulated GPUs. unified says whether they share the host's memory. When the
// test ends, it fails if a rule of Metal was broken or an object of Metal is left, so the test closes all devices before.
func New(tb testing.TB, unified bool) core.Backend {
	tb.Helper()
	c := fake.Config{Seed: rand.Uint64(), Unified: unified}
	tb.Logf("a simulated Metal with seed %d", c.Seed)
	v := fake.New(c)
	tb.Cleanup(func() {
		for _, text := range v.Check() {
			tb.Error(text)
		}
	})
	return engine.New(func() (driver.Driver, error) { return v, nil })
}
