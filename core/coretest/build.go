package coretest

import "testing"

// BuildsProgram is called by a test that lets the go command build a program or a library, and runs that. Under a
// sanitizer it skips the test: what is built has none, so the test would only repeat what it does without, after
// everything was compiled once more with the other flags of the suite.
func BuildsProgram(tb testing.TB) {
	tb.Helper()
	if Sanitized {
		tb.Skip("what the go command builds here has no sanitizer: the suites without one run this test")
	}
}
