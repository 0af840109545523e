package coretest

import (
	"os"
	"testing"
)

// Quick reports whether a test should take as little time as it can: the short tests run, and the environment variable
// DLX_THOROUGH is not 1. A quick test still covers each function and each device, but leaves out what repeats this with
// another order, another place or another variant of a device. The sanitizers' suites set DLX_THOROUGH, so that their
// short tests have these, too.
func Quick() bool { return testing.Short() && os.Getenv("DLX_THOROUGH") != "1" }

// SkipQuick skips a test that [Quick] leaves out as a whole. The text says what else covers its code.
func SkipQuick(t testing.TB, because string) {
	t.Helper()
	if Quick() {
		t.Skipf("not a quick test: %s (DLX_THOROUGH=1 or go test without -short runs it)", because)
	}
}

// Times returns how often a test repeats what it does: in quick runs and under sanitizers, in others, and where
// DLX_THOROUGH=1 asks for what takes minutes.
func Times(quick, usual, thorough int) int {
	switch {
	case Quick() || Sanitized:
		return quick
	case os.Getenv("DLX_THOROUGH") == "1":
		return thorough
	}
	return usual
}
