package coretest

import (
	"os"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// HandleOf returns a handle of type k with a duplicate of the descriptor fd. It is closed
// when the test ends.
func HandleOf(t testing.TB, k core.HandleType, fd int) *core.Handle {
	t.Helper()
	borrowed, err := backendkit.NewHandle(k, uintptr(fd))
	if err != nil {
		t.Fatal(err)
	}
	h, err := borrowed.Duplicate()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := borrowed.Take(); err != nil { // fd stays the caller's
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// DeadHandle returns a handle of type k whose descriptor somebody else has closed. The
// number may be another file's after the next one is opened.
func DeadHandle(t testing.TB, k core.HandleType) *core.Handle {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	h, err := backendkit.NewHandle(k, f.Fd())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = h.Take() })
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return h
}

// FD returns the descriptor of a handle, which still owns it.
func FD(t testing.TB, h *core.Handle) int {
	t.Helper()
	fd, err := h.Number()
	if err != nil {
		t.Fatal(err)
	}
	return int(fd)
}
