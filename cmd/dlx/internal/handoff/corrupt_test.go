package handoff_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/cmd/dlx/internal/handoff"
	"github.com/dlx-go/dlx/core"
)

// corrupting makes devices whose n-th copy from the host damages the element 2.
type corrupting struct {
	core.Backend
	n *int
}

func (b corrupting) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	d, err := b.Backend.Open(ctx, id)
	return corruptingDevice{d, b.n}, err
}

type corruptingDevice struct {
	core.Device
	n *int
}

func (d corruptingDevice) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	if src.ID() == core.CPU {
		if *d.n--; *d.n == 0 {
			values, err := core.Values[float32](src)
			if err != nil {
				return err
			}
			values = slices.Clone(values)
			values[2] = -1
			damaged, err := core.FromSlice(values, src.Shape()...)
			if err != nil {
				return err
			}
			defer damaged.Close()
			src = damaged
		}
	}
	return d.Device.Copy(ctx, s, dst, src)
}

func TestVerifyFindsTheFirstElementThatDiffers(t *testing.T) {
	damagedCopy := 3
	route := open(t, corrupting{simulated(t), &damagedCopy}, core.CPU, ext0, core.CPU)
	last, report, err := route.Carry(t.Context(), "x", numbers(t, 2, 2), handoff.Options{Trips: 5, Verify: true})
	var mismatch *handoff.MismatchError
	if last != nil || !errors.As(err, &mismatch) {
		t.Fatalf("a damaged tensor arrived: %v, %v", last, err)
	}
	want := handoff.MismatchError{Tensor: "x", Trip: 3, Hop: 2, Index: []int64{1, 0}, Want: "00004040", Got: "000080bf"}
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
	damagedCopy := 1
	route := open(t, corrupting{simulated(t), &damagedCopy}, ext0)
	last, report, err := route.Carry(t.Context(), "x", numbers(t, 2, 2), handoff.Options{})
	if err != nil || report.Verified != nil {
		t.Errorf("%v, verified %v", err, report.Verified)
	}
	keep(t, last, err)
}
