package coretest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// driversVariable is an environment variable. If it is 1, tests skip what needs a driver that
// this machine lacks, instead of failing.
const driversVariable = "DLX_WITHOUT_DRIVERS"

// lackVariable is an environment variable with names of backends, separated by commas, that the drivers which the
// environment names do not serve. scripts/software-drivers.sh sets it.
const lackVariable = "DLX_DRIVERS_LACK"

// WithoutDrivers reports whether the environment has DLX_WITHOUT_DRIVERS=1, which means that
// tests may be skipped for lack of a driver.
func WithoutDrivers() bool { return os.Getenv(driversVariable) == "1" }

// NeedDriver ends a test that lacks a driver or a program of the system. missing is the
// reason, such as the Reason of a [core.Probe]; if it is "", nothing is missing and
// NeedDriver does nothing. Otherwise the test fails, and the message says to install what
// install names. The test is skipped instead if [WithoutDrivers] returns true, or if missing is an error of a backend that
// the environment's DLX_DRIVERS_LACK names.
func NeedDriver(tb testing.TB, missing, install string) {
	tb.Helper()
	switch {
	case missing == "":
	case MayLack(missing):
		tb.Skip(missing)
	default:
		tb.Fatalf("%s: install %s, or set %s=1 to skip what needs it", missing, install, driversVariable)
	}
}

// LeavesOut is NeedDriver for a test that goes on with the other backends: where NeedDriver would skip the test, it logs the
// reason and returns true.
func LeavesOut(tb testing.TB, missing, install string) bool {
	tb.Helper()
	if missing != "" && MayLack(missing) {
		tb.Logf("left out: %s", missing)
		return true
	}
	NeedDriver(tb, missing, install)
	return false
}

// MayLack reports whether the environment lets tests go without what is missing: see [NeedDriver].
func MayLack(missing string) bool {
	backend, _, _ := strings.Cut(missing, ":")
	return WithoutDrivers() || slices.Contains(strings.Split(os.Getenv(lackVariable), ","), backend)
}
