//go:build cuda && linux && cgo

package driver

import (
	"slices"
	"testing"
)

// The codes whose text in cuda.h of CUDA 13.5 says that the process is in an inconsistent
// state, that it must be terminated, or that the context cannot be used any more; the
// uncorrectable errors of ECC and NVLink, after which contexts fail likewise; and the
// destroyed context.
func TestCodesAfterWhichNothingSucceedsAreSticky(t *testing.T) {
	sticky := []Code{214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911}
	for c := Code(1); c < 1000; c++ {
		if want := slices.Contains(sticky, c); c.Sticky() != want {
			t.Errorf("%d is sticky: %v, want %v", c, c.Sticky(), want)
		}
	}
}
