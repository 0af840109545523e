package hostcopy_test

import (
	"bytes"
	"runtime"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/hostcopy"
)

// Every job runs once, whatever their sizes are and however many goroutines there are.
func TestRunAll(t *testing.T) {
	for _, sizes := range [][]int{
		nil, {100}, {0, 1, 0, 3}, {5 << 20, 10, 5 << 20}, times(1000, 4096), append(times(50, 100_000), 6<<20, 0),
	} {
		for _, workers := range []int{1, 2, 7} {
			var jobs []hostcopy.Job
			from, to := make([][]byte, len(sizes)), make([][]byte, len(sizes))
			for i, n := range sizes {
				from[i], to[i] = bytes.Repeat([]byte{byte(i + 1)}, n), make([]byte, n)
				jobs = append(jobs, hostcopy.Bytes(address(to[i]), address(from[i]), int64(n)))
			}
			if err := hostcopy.RunAll(jobs, workers); err != nil {
				t.Fatal(err)
			}
			for i := range from {
				if !bytes.Equal(from[i], to[i]) {
					t.Fatalf("%d workers: job %d of %d bytes was not run", workers, i, sizes[i])
				}
			}
			runtime.KeepAlive(from)
		}
	}
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// times is n times size.
func times(n, size int) (list []int) {
	for range n {
		list = append(list, size)
	}
	return list
}
