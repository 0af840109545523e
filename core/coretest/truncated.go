package coretest

import (
	"errors"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// CheckTruncated copies between two tensors of which one is [Truncated], on a stream or,
// where that is nil, at once. It fails the test unless that ends with an error that
// says what has happened, and whoever uses dst next is told.
func CheckTruncated(t testing.TB, d core.Device, s core.Stream, dst, src *core.Tensor) {
	t.Helper()
	copied := d.Copy(t.Context(), s, dst, src)
	if copied == nil && s == nil {
		t.Errorf("%v to %v: Copy returned no error", src, dst)
	}
	next, err := dst.WaitReady(t.Context()), copied
	if err == nil {
		err = next
	}
	var typed *core.Error
	if !errors.Is(err, core.ErrInvalid) || !errors.As(err, &typed) || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("%v to %v, on stream %v: %v", src, dst, s != nil, err)
	}
	// What Copy itself returns was found before the copy was enqueued.
	if copied == nil && !errors.Is(next, core.ErrInvalid) {
		t.Errorf("%v to %v: whoever uses dst next is told %v", src, dst, next)
	}
	b, err := dst.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	b.Wrote(nil)
}
