//go:build cgo

package main

import (
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

// A handle is a number of two parts: the kind of the object in the upper 8 bits, and which of that kind it is in the
// others. Numbers are not used twice, so the handle of a closed object is never that of another one. No handle is an
// address of a 64-bit processor, so a program that uses one as a pointer fails at once.
const (
	kindShift  = 56
	numberMask = 1<<kindShift - 1
)

// kindNames has the names of the kinds; the kind of a handle is the index.
var kindNames = []string{"none"}

// handles are the open objects of one kind.
type handles[T any] struct {
	name string
	kind uintptr

	mu   sync.RWMutex
	last uintptr // the number of the last handle that was made
	open map[uintptr]T
}

// newHandles returns the table of one kind, whose types in C is "dlx_" and name. Call it once for each kind, to
// initialize a package-level variable: Live then counts the open handles.
func newHandles[T any](name string) *handles[T] {
	h := &handles[T]{name: name, kind: uintptr(len(kindNames)), open: make(map[uintptr]T)}
	kindNames = append(kindNames, name)
	live.Count("libdlx."+name, func() int64 {
		h.mu.RLock()
		defer h.mu.RUnlock()
		return int64(len(h.open))
	})
	return h
}

// add makes a handle of an object, and writes it to out, which points to a variable of C.
func (h *handles[T]) add(out unsafe.Pointer, object T) {
	h.mu.Lock()
	h.last++
	handle := h.kind<<kindShift | h.last
	h.open[handle] = object
	h.mu.Unlock()
	*(*uintptr)(out) = handle
}

// get returns the object of a handle, which C has as a pointer. Its error wraps core.ErrInvalid or core.ErrClosed.
func (h *handles[T]) get(pointer unsafe.Pointer) (T, error) {
	handle := uintptr(pointer)
	h.mu.RLock()
	object, ok := h.open[handle]
	last := h.last
	h.mu.RUnlock()
	if !ok {
		return object, h.wrong(handle, last)
	}
	return object, nil
}

// getOptional is get, but returns the zero T for NULL.
func (h *handles[T]) getOptional(pointer unsafe.Pointer) (object T, err error) {
	if pointer == nil {
		return object, nil
	}
	return h.get(pointer)
}

// take is get, and closes the handle: of several calls with one handle, one succeeds.
func (h *handles[T]) take(pointer unsafe.Pointer) (T, error) {
	handle := uintptr(pointer)
	h.mu.Lock()
	object, ok := h.open[handle]
	delete(h.open, handle)
	last := h.last
	h.mu.Unlock()
	if !ok {
		return object, h.wrong(handle, last)
	}
	return object, nil
}

// wrong returns the error for a handle that is not open.
func (h *handles[T]) wrong(handle, last uintptr) error {
	kind, number := handle>>kindShift, handle&numberMask
	switch {
	case handle == 0:
		return invalid("the dlx_%s is NULL", h.name)
	case kind == h.kind && number > 0 && number <= last:
		return core.Errorf(core.ErrClosed, origin, "", "the dlx_%s was closed before", h.name)
	case kind != h.kind && kind > 0 && kind < uintptr(len(kindNames)) && number > 0:
		return invalid("the handle is a dlx_%s, not a dlx_%s", kindNames[kind], h.name)
	}
	return invalid("%#x is not a handle of dlx", handle)
}
