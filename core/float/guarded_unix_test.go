//go:build unix

package float_test

import (
	"os"
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"
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

func elements[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}

func TestNothingElseIsAccessed(t *testing.T) {
	a, b := guarded(t), guarded(t)
	for _, w := range narrowings {
		ends(w.vector, elements[uint16](a), elements[float32](b))
	}
	for _, w := range widenings {
		ends(w.vector, elements[float32](a), elements[uint16](b))
	}
}

// ends converts what lies at the beginning and at the end of a page.
func ends[To, From any](f func([]To, []From), to []To, from []From) {
	for n := range 101 {
		f(to[:n], from[:n])
		f(to[len(to)-n:], from[len(from)-n:])
		f(to[:n], from[len(from)-n:])
		f(to[len(to)-n:], from[:n])
	}
}

// A fault is a panic for those who ask for that: a mapped file may have been truncated.
func TestFaults(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	page := guarded(t)
	beyond := unsafe.Slice((*uint16)(unsafe.Pointer(&page[0])), len(page))
	defer func() {
		if _, ok := recover().(interface{ Addr() uintptr }); !ok {
			t.Error("no panic with an address")
		}
	}()
	widenings[0].vector(make([]float32, len(beyond)), beyond)
}
