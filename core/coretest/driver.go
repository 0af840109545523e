package coretest

import (
	"os"
	"testing"
)

// driversVariable is an environment variable. If it is 1, tests skip what needs a driver that
// this machine lacks, instead of failing.
const driversVariable = "DLX_WITHOUT_DRIVERS"

// WithoutDrivers reports whether the environment has DLX_WITHOUT_DRIVERS=1, which means that
// tests may be skipped for lack of a driver.
func WithoutDrivers() bool { return os.Getenv(driversVariable) == "1" }

// NeedDriver ends a test that lacks a driver or a program of the system. missing is the
// reason, such as the Reason of a [core.Probe]; if it is "", nothing is missing and
// NeedDriver does nothing. Otherwise the test fails, and the message says to install what
// install names. If [WithoutDrivers] returns true, the test is skipped instead.
func NeedDriver(tb testing.TB, missing, install string) {
	tb.Helper()
	switch {
	case missing == "":
	case WithoutDrivers():
		tb.Skip(missing)
	default:
		tb.Fatalf("%s: install %s, or set %s=1 to skip what needs it", missing, install, driversVariable)
	}
}
