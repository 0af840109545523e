//go:build opencl && linux && cgo

package opencl_test

import (
	"bytes"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// threads is how many threads the process has.
func threads(tb testing.TB) int {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		if n, ok := bytes.CutPrefix(line, []byte("Threads:")); ok {
			threads, err := strconv.Atoi(string(bytes.TrimSpace(n)))
			if err != nil {
				tb.Fatal(err)
			}
			return threads
		}
	}
	tb.Fatal("/proc/self/status tells no number of threads")
	return 0
}

// Memory that waits for its last work to be freed, and events that many wait for,
// must not take a thread each: Go ends a program that has ten thousand.
func TestPendingWorkHoldsNoThreads(t *testing.T) {
	d := device(t)
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sem, err := d.(core.SemaphoreCreator).NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := sem.WaitOn(s, 1); err != nil {
		t.Fatal(err)
	}
	before := threads(t)
	const copies = 500
	waited := make(chan error, copies)
	for range copies {
		dst, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{4096}, core.AllocOptions{})
		if err != nil {
			t.Fatal(err)
		}
		src, err := core.FromSlice(make([]byte, 4096))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Copy(t.Context(), s, dst, src); err != nil {
			t.Fatal(err)
		}
		e := dst.Ready()
		go func() { waited <- e.Wait(t.Context()) }()
		src.Close()
		dst.Close()
	}
	time.Sleep(20 * time.Millisecond) // for all to wait
	if now := threads(t); now > before+20 {
		t.Errorf("%d threads while %d copies are pending, %d before", now, copies, before)
	}
	if err := sem.Close(); err != nil { // lets the stream go
		t.Fatal(err)
	}
	for range copies {
		<-waited // with the semaphore's error, or without
	}
}
