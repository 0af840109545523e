package coretest

import (
	"os"
	"syscall"
	"testing"
)

// limitedVariable is set in the process of a test that calls LimitMemory.
const limitedVariable = "DLX_CORETEST_LIMITED_MEMORY"

// LimitMemory runs the calling test in a process of its own, which has an address space of 8 GiB, and reports whether the
// caller is in that process. In the other one the caller returns: LimitMemory has waited for the results. It skips the test
// under a sanitizer, which needs more.
func LimitMemory(t *testing.T) bool {
	t.Helper()
	if Sanitized {
		t.Skip("a sanitizer needs more memory than the limit of this test")
	}
	if os.Getenv(limitedVariable) != "1" {
		Child(t, t.Name(), limitedVariable+"=1")(t)
		return false
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 8 << 30, Max: 8 << 30}); err != nil {
		t.Fatal(err)
	}
	return true
}
