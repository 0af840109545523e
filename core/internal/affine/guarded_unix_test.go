//go:build unix

package affine_test

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core/internal/affine"
)

// guarded returns a page of memory between two that cannot be accessed.
func guarded(t *testing.T) []byte {
	t.Helper()
	page := os.Getpagesize()
	all, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(all) })
	for _, b := range [][]byte{all[:page], all[2*page:]} {
		if err := syscall.Mprotect(b, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return all[page : 2*page : 2*page]
}

func TestNothingElseIsAccessed(t *testing.T) {
	page := guarded(t)
	to := make([]float32, 64)
	for step := int64(1); step <= 6; step++ {
		for n := int64(1); n <= 64; n++ {
			last := (n - 1) * step
			affine.FromUint8(to[:n], unsafe.Pointer(&page[0]), step, 1, 0)
			affine.FromUint8(to[:n], unsafe.Pointer(&page[len(page)-1-int(last)]), step, 1, 0)
			affine.FromUint8(to[:n], unsafe.Pointer(&page[len(page)-1]), -step, 1, 0)
			affine.FromUint8(to[:n], unsafe.Pointer(&page[last]), -step, 1, 0)
		}
	}
}
