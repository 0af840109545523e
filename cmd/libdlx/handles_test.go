//go:build cgo

package main

import (
	"errors"
	"sync"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// The tables of the test. newHandles may be called only before other goroutines use handles.
var (
	numbers = newHandles[int]("test_number")
	words   = newHandles[string]("test_word")
)

// add makes a handle, and returns it as C has it.
func add[T any](h *handles[T], object T) unsafe.Pointer {
	var out unsafe.Pointer
	h.add(unsafe.Pointer(&out), object)
	return out
}

// pointerOf returns a number as C would pass it. Go must not compute with pointers that are none.
func pointerOf(n uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&n)) }

func TestHandles(t *testing.T) {
	one, two, word := add(numbers, 1), add(numbers, 2), add(words, "w")
	if n, err := numbers.get(one); n != 1 || err != nil {
		t.Errorf("get returned %d, %v", n, err)
	}
	if n := core.Live()["libdlx.test_number"]; n != 2 {
		t.Errorf("Live counts %d handles, want 2", n)
	}
	if n, err := numbers.take(two); n != 2 || err != nil {
		t.Errorf("take returned %d, %v", n, err)
	}
	three := add(numbers, 3)
	if three == two || three == one {
		t.Errorf("the handle %p was made again", three)
	}
	for _, wrong := range []struct {
		name   string
		handle unsafe.Pointer
		want   error
	}{
		{"NULL", nil, core.ErrInvalid},
		{"closed", two, core.ErrClosed},
		{"another kind", word, core.ErrInvalid},
		{"the number 0", pointerOf(uintptr(one) &^ numberMask), core.ErrInvalid},
		{"not made yet", pointerOf(uintptr(three) + 1), core.ErrInvalid},
		{"no kind", pointerOf(1), core.ErrInvalid},
		{"an address", unsafe.Pointer(t), core.ErrInvalid},
	} {
		if _, err := numbers.get(wrong.handle); !errors.Is(err, wrong.want) {
			t.Errorf("%s: get returned %v, want %v", wrong.name, err, wrong.want)
		}
		if _, err := numbers.take(wrong.handle); !errors.Is(err, wrong.want) {
			t.Errorf("%s: take returned %v, want %v", wrong.name, err, wrong.want)
		}
		if _, err := numbers.getOptional(wrong.handle); (err == nil) != (wrong.handle == nil) {
			t.Errorf("%s: getOptional returned %v", wrong.name, err)
		}
	}
	if err := errors.Join(takeError(numbers, one), takeError(numbers, three), takeError(words, word)); err != nil {
		t.Error(err)
	}
}

func takeError[T any](h *handles[T], handle unsafe.Pointer) error {
	_, err := h.take(handle)
	return err
}

// Of many goroutines that close one handle, one succeeds.
func TestHandleIsTakenOnce(t *testing.T) {
	for range 100 {
		h := add(numbers, 1)
		var taken sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			taken.Go(func() { errs[i] = takeError(numbers, h) })
		}
		taken.Wait()
		succeeded := 0
		for _, err := range errs {
			switch {
			case err == nil:
				succeeded++
			case !errors.Is(err, core.ErrClosed):
				t.Fatal(err)
			}
		}
		if succeeded != 1 {
			t.Fatalf("%d goroutines closed the handle", succeeded)
		}
	}
}
