package coretest

import (
	"errors"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// CheckTruncated copies src to dst, one of which is [Truncated], on stream s; s may be nil. It
// fails the test unless Copy or dst.WaitReady returns core.ErrInvalid with a text that
// contains "truncated". If Copy succeeds, WaitReady must return the error.
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
	// An error that Copy returns was found before the copy was enqueued, so dst has none.
	if copied == nil && !errors.Is(next, core.ErrInvalid) {
		t.Errorf("%v to %v: WaitReady of dst returned %v", src, dst, next)
	}
	b, err := dst.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	b.Wrote(nil)
}
