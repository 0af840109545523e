package move_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/cmd/dlx/internal/move"
	"github.com/dlx-go/dlx/cmd/dlx/internal/wraptest"
	"github.com/dlx-go/dlx/core"
)

// corrupting makes devices whose n-th copy from the host damages the element 2.
func corrupting(t *testing.T, n int) core.Backend {
	return wraptest.Backend{Backend: simulated(t), FromHost: func(src *core.Tensor) (*core.Tensor, error) {
		if n--; n != 0 {
			return src.Share()
		}
		values, err := core.Values[float32](src)
		if err != nil {
			return nil, err
		}
		values = slices.Clone(values)
		values[2] = -1
		return core.FromSlice(values, src.Shape()...)
	}}
}

func TestVerifyFindsTheFirstElementThatDiffers(t *testing.T) {
	route := open(t, corrupting(t, 3), core.CPU, ext0, core.CPU)
	last, report, err := route.Carry(t.Context(), "x", numbers(t, 2, 2), move.Options{Trips: 5, Verify: true})
	var mismatch *move.MismatchError
	if last != nil || !errors.As(err, &mismatch) {
		t.Fatalf("a damaged tensor arrived: %v, %v", last, err)
	}
	want := move.MismatchError{Tensor: "x", Trip: 3, Hop: 2, Index: []int64{1, 0}, Want: "00004040", Got: "000080bf"}
	if !slices.Equal(mismatch.Index, want.Index) {
		t.Errorf("index %v, want %v", mismatch.Index, want.Index)
	}
	if mismatch.Trip != want.Trip || mismatch.Hop != want.Hop || mismatch.Want != want.Want || mismatch.Got != want.Got {
		t.Errorf("mismatch %+v, want %+v", *mismatch, want)
	}
	if report.Mismatch != mismatch || *report.Verified || report.Trips != 3 || *report.Hops[1].Verified {
		t.Errorf("the report does not tell: %+v", report)
	}
}

func TestDamageIsNotSeenWithoutVerify(t *testing.T) {
	route := open(t, corrupting(t, 1), ext0)
	last, report, err := route.Carry(t.Context(), "x", numbers(t, 2, 2), move.Options{})
	if err != nil || report.Verified != nil {
		t.Errorf("%v, verified %v", err, report.Verified)
	}
	keep(t, last, err)
}
