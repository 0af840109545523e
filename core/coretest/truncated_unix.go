//go:build unix

package coretest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// Truncated returns a tensor of size bytes in a mapped file that was then truncated to 0
// bytes, so that an access to its elements faults. It is closed at the end of the test.
func Truncated(t testing.TB, size int64) *core.Tensor {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // the mapping stays
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	data, err := syscall.Mmap(int(file.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	unmap := func() { _ = syscall.Munmap(data) }
	x, err := core.Wrap(
		core.Memory{ID: core.CPU, Handle: uintptr(unsafe.Pointer(&data[0])), Size: size, Owner: core.FreeFunc(unmap)},
		core.Spec{DType: core.TypeUint8, Shape: []int64{size}},
	)
	if err != nil {
		unmap()
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	if err := file.Truncate(0); err != nil {
		t.Fatal(err)
	}
	return x
}
