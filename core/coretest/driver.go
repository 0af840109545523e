package coretest

import (
	"os"
	"testing"
)

// driversVariable says, set to 1, that tests may do without the drivers that this
// machine lacks.
const driversVariable = "DLX_WITHOUT_DRIVERS"

// WithoutDrivers reports whether DLX_WITHOUT_DRIVERS=1 says that drivers may be missing.
func WithoutDrivers() bool { return os.Getenv(driversVariable) == "1" }

// NeedDriver ends a test whose driver, or program of the system, is missing: missing
// says so, as the Reason of a [core.Probe] does, and is "" where
// all is there. A test that does not run proves nothing, so that it fails and tells what to
// install, unless [WithoutDrivers] says that it may be skipped.
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
