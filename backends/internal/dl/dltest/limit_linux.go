package dltest

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// LimitMemory limits the address space of the process to its current size plus more bytes (RLIMIT_AS), until
// end is called or the test ends.
func LimitMemory(tb testing.TB, more int64) (end func()) {
	tb.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		tb.Fatal(err)
	}
	pages, err := strconv.ParseInt(string(bytes.Fields(statm)[0]), 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &before); err != nil {
		tb.Fatal(err)
	}
	end = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, &before); err != nil {
			tb.Error(err)
		}
	}
	tb.Cleanup(end)
	limit := before
	limit.Cur = uint64(pages*int64(os.Getpagesize()) + more)
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &limit); err != nil {
		tb.Fatal(err)
	}
	return end
}
