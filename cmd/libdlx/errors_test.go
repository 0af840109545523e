//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// The statuses are those of dlx.h. A panic is one, too, and goes no further.
func TestStatuses(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("of no kind"), 1},
		{core.ErrInvalid, 2},
		{core.ErrNotSupported, 3},
		{core.ErrClosed, 4},
		{core.ErrVersion, 5},
		{core.ErrLayout, 6},
		{core.ErrDType, 7},
		{core.ErrReadOnly, 8},
		{core.ErrDevice, 9},
		{core.ErrDeviceLost, 10},
		{core.ErrOutOfMemory, 11},
		{core.ErrExists, 12},
		{context.DeadlineExceeded, 13},
		{core.Errorf(core.ErrLayout, "cpu", "Alloc", "detail"), 6},
		{fmt.Errorf("%w, and %w", core.ErrNotSupported, core.ErrOutOfMemory), 11},
	} {
		if got := do(nil, func() error { return test.err }); int(got) != test.want {
			t.Errorf("%v has the status %d, want %d", test.err, got, test.want)
		}
	}
	if got := do(nil, func() error { panic("a defect") }); got != 1 {
		t.Errorf("a panic has the status %d, want 1", got)
	}
	if got := do(nil, func() error { return fmt.Errorf("%d", divide(1, 0)) }); got != 1 {
		t.Errorf("an error of the runtime has the status %d, want 1", got)
	}
}

func divide(a, b int) int { return a / b }

// The text of a time limit has no words of Go.
func TestTextOfATimeLimit(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, fmt.Errorf("cpu: %w", context.DeadlineExceeded)} {
		if got := textOf(err); !strings.HasSuffix(got, "the time limit of the call has passed") || strings.Contains(got, "context") {
			t.Errorf("%q", got)
		}
	}
}
