//go:build ucx && linux && cgo

package ucx_test

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/remote/internal/ucx"
)

// residentKiB returns the memory that the process uses, without pages of files.
func residentKiB(b *testing.B) float64 {
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(line, ":")
		if name == "RssAnon" || name == "RssShmem" {
			k, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += k
		}
	}
	return sum
}

// BenchmarkMemory measures what a worker takes, an endpoint beside it, and the first message beside both.
func BenchmarkMemory(b *testing.B) {
	nothing := ucx.Handler{Arrived: func(*ucx.Message) bool { return false }, Broken: func(error) {}, Dropped: func() {}}
	open := func() *ucx.Worker {
		w, err := ucx.NewWorker(100, nothing)
		if err != nil {
			b.Fatal(err)
		}
		return w
	}
	first := open() // what a process takes once
	defer first.Close()
	var marks [4]float64
	for b.Loop() {
		marks[0] = residentKiB(b)
		var all [40]*ucx.Worker // an even one and the next one are peers
		for i := range all {
			all[i] = open()
		}
		marks[1] = residentKiB(b)
		for i, w := range all {
			if err := w.Connect(all[i^1].Address()); err != nil {
				b.Fatal(err)
			}
		}
		marks[2] = residentKiB(b)
		for _, w := range all {
			done := make(chan error, 1)
			if err := w.Send([]byte("x"), 0, 0, false, func(err error) { done <- err }); err != nil {
				b.Fatal(err)
			}
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
		marks[3] = residentKiB(b)
		for _, w := range all {
			_ = w.Close()
		}
	}
	for i, name := range []string{"KiB/worker", "KiB/endpoint", "KiB/first-message"} {
		b.ReportMetric((marks[i+1]-marks[i])/40, name)
	}
}
