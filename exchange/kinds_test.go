//go:build cgo && !windows

package exchange_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/exchange"
)

// called exports a tensor as a library does that calls the memory by another kind of device, and imports that.
func called(t *testing.T, x *core.Tensor, kind core.DeviceType, options ...dlpack.ImportOptions) *core.Tensor {
	t.Helper()
	m, err := dlpack.Export(x)
	if err != nil {
		t.Fatal(err)
	}
	m.Tensor.Device.Type, m.Tensor.Device.ID = int32(kind), 0
	y, err := dlpack.Import(m, append(options, dlpack.ImportOptions{})[0])
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// Memory of a kind that no opened device knows moves nowhere, and the error says what to do. Once the program has said what it is, it moves to every
// device. VPI wraps memory of the host; oneAPI allocates there, too.
func TestMemoryOfOtherKindsMovesAsWhatItIs(t *testing.T) {
	coretest.CheckNoLeaks(t)
	defer dlpack.Flush()
	devices := openAll(t, 1)
	x := slice(t, []int32{1, 2, 3, 4, 5, 6})
	for _, kind := range []core.DeviceType{core.DeviceVPI, core.DeviceOneAPI, core.DeviceExt, core.DeviceTrn, core.DeviceMAIA, 99} {
		unknown, known := called(t, x, kind), called(t, x, kind, dlpack.ImportOptions{OnDevice: core.CPU})
		for _, d := range devices {
			for _, policy := range []exchange.Copy{exchange.IfNeeded, exchange.Always, exchange.Never} {
				y, _, err := exchange.To(t.Context(), unknown, d, exchange.Options{Copy: policy})
				if d.ID().Type == kind { // its driver knows no such allocation
					if err == nil || !strings.Contains(err.Error(), "ImportPointer") {
						t.Errorf("%v to %v, copy %v: %v, %v", kind, d.ID(), policy, y, err)
					}
					continue
				}
				if !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), kind.String()) || !strings.Contains(err.Error(), "dlpack.ImportOptions") {
					t.Errorf("%v to %v, copy %v: %v, %v", kind, d.ID(), policy, y, err)
				}
			}
			wantValues(t, known, d)
		}
		if err := errors.Join(unknown.Close(), known.Close()); err != nil {
			t.Error(err)
		}
	}
}

// wantValues moves a tensor to a device and back to the host, and compares it with 1 to 6.
func wantValues(t *testing.T, x *core.Tensor, d core.Device) {
	t.Helper()
	there, _, err := exchange.To(t.Context(), x, d, exchange.Options{})
	if err != nil {
		t.Errorf("to %v: %v", d.ID(), err)
		return
	}
	defer there.Close()
	back, _, err := exchange.To(t.Context(), there, host(t), exchange.Options{})
	if err != nil {
		t.Errorf("from %v: %v", d.ID(), err)
		return
	}
	defer back.Close()
	if got, err := core.Values[int32](back); err != nil || !slices.Equal(got, []int32{1, 2, 3, 4, 5, 6}) {
		t.Errorf("by way of %v: %v, %v", d.ID(), got, err)
	}
}

// VPI wraps memory of CUDA, too. Said to be that, it is CUDA's without a copy, and moves from there.
func TestMemoryOfOtherKindsThatIsACards(t *testing.T) {
	coretest.CheckNoLeaks(t)
	defer dlpack.Flush()
	devices := openAll(t, 1)
	for _, d := range devices {
		if kind := d.ID().Type; kind != core.DeviceCUDA && kind != core.DeviceROCM {
			continue
		}
		own := numbered(t, d, core.AllocOptions{}, 6)
		x := called(t, own, core.DeviceVPI, dlpack.ImportOptions{OnDevice: d.ID()})
		_, _, err := exchange.To(t.Context(), x, host(t), exchange.Options{})
		if !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), "import it through a device of "+d.ID().String()) {
			t.Errorf("past %v: %v", d.ID(), err)
		}
		there, report, err := exchange.To(t.Context(), x, d, exchange.Options{Copy: exchange.Never})
		if err != nil {
			t.Fatalf("to %v: %v", d.ID(), err)
		}
		if report.Mechanism != exchange.Alias || there.DeviceID() != d.ID() {
			t.Errorf("on %v: %v, %v", d.ID(), there, report.Mechanism)
		}
		for _, next := range devices {
			y, _, err := exchange.To(t.Context(), there, next, exchange.Options{})
			if err != nil {
				t.Errorf("%v to %v: %v", d.ID(), next.ID(), err)
				continue
			}
			wantSame(t, y, own)
			_ = y.Close()
		}
		if err := errors.Join(there.Close(), x.Close(), own.Close()); err != nil {
			t.Error(err)
		}
	}
}

// wantSame compares the elements of two tensors, which may be anywhere.
func wantSame(t *testing.T, x, y *core.Tensor) {
	t.Helper()
	var got [2][]int32
	for i, z := range []*core.Tensor{x, y} {
		here, _, err := exchange.To(t.Context(), z, host(t), exchange.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		defer here.Close()
		values, err := core.Values[int32](here)
		if err != nil {
			t.Error(err)
			return
		}
		got[i] = slices.Clone(values)
	}
	if !slices.Equal(got[0], got[1]) || len(got[0]) == 0 {
		t.Errorf("%v, want %v", got[0], got[1])
	}
}
