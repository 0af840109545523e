//go:build cgo && !windows

package dlpack_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
	"github.com/dlx-go/dlx/core/internal/abi"
)

// badInput are foreign tensors that must be refused, for both structs.
var badInput = []struct {
	name string
	lie  func(*hostile.Fields)
	opts dlpack.ImportOptions
	want error
}{
	{name: "shape is NULL with ndim above 0", lie: func(f *hostile.Fields) { f.Shape = nil }, want: core.ErrLayout},
	{name: "an extent is negative", lie: func(f *hostile.Fields) { f.Shape[1] = -1 }, want: core.ErrLayout},
	{name: "an extent is the smallest int64", lie: func(f *hostile.Fields) { f.Shape[0] = math.MinInt64 }, want: core.ErrLayout},
	{name: "ndim is negative", lie: func(f *hostile.Fields) { f.NDim = -1 }, want: core.ErrLayout},
	{name: "ndim is the smallest int32", lie: func(f *hostile.Fields) { f.NDim = math.MinInt32 }, want: core.ErrLayout},
	{name: "ndim is the largest int32", lie: func(f *hostile.Fields) { f.NDim = math.MaxInt32 }, want: core.ErrLayout},
	{name: "ndim is above the limit", lie: func(f *hostile.Fields) { f.NDim = core.MaxRank + 1 }, want: core.ErrLayout},
	{name: "the product of the shape overflows", lie: func(f *hostile.Fields) { f.Shape = []int64{1 << 32, 1 << 32} }, want: core.ErrLayout},
	{name: "the product overflows to a small number", lie: func(f *hostile.Fields) { f.Shape, f.Strides = []int64{1 << 62, 4}, nil }, want: core.ErrLayout},
	{name: "the number of bytes overflows", lie: func(f *hostile.Fields) { f.Shape, f.Strides = []int64{1 << 31, 1 << 31}, nil }, want: core.ErrLayout},
	{name: "a stride overflows", lie: func(f *hostile.Fields) { f.Strides[0] = math.MaxInt64; f.Shape[0] = 3 }, want: core.ErrLayout},
	{name: "a negative stride overflows", lie: func(f *hostile.Fields) { f.Strides[0] = math.MinInt64; f.Shape[0] = 3 }, want: core.ErrLayout},
	{name: "strides reach behind the memory", lie: func(f *hostile.Fields) { f.Strides[0] = 4 }, opts: dlpack.ImportOptions{Size: 24}, want: core.ErrLayout},
	{name: "strides reach before the memory", lie: func(f *hostile.Fields) { f.Strides[0] = -3 }, opts: dlpack.ImportOptions{Size: 24}, want: core.ErrLayout},
	{name: "byte_offset moves the elements out of the memory", lie: func(f *hostile.Fields) { f.ByteOffset = 1 }, opts: dlpack.ImportOptions{Size: 24}, want: core.ErrLayout},
	{name: "the size given is negative", lie: func(f *hostile.Fields) {}, opts: dlpack.ImportOptions{Size: -24}, want: core.ErrInvalid},
	{name: "data is NULL with elements", lie: func(f *hostile.Fields) { f.Data = 0 }, want: core.ErrInvalid},
	{name: "byte_offset is above int64", lie: func(f *hostile.Fields) { f.ByteOffset = 1 << 63 }, want: core.ErrLayout},
	{name: "byte_offset and extent overflow together", lie: func(f *hostile.Fields) { f.ByteOffset = math.MaxInt64 - 8 }, want: core.ErrLayout},
	{name: "bits is 0", lie: func(f *hostile.Fields) { f.DType.Bits = 0 }, want: core.ErrDType},
	{name: "lanes is 0", lie: func(f *hostile.Fields) { f.DType.Lanes = 0 }, want: core.ErrDType},
	{name: "a float6 of 8 bits", lie: func(f *hostile.Fields) { f.DType = abi.DataType{Code: 15, Bits: 8, Lanes: 1} }, want: core.ErrDType},
	{name: "a float4 of 8 bits", lie: func(f *hostile.Fields) { f.DType = abi.DataType{Code: 17, Bits: 8, Lanes: 1} }, want: core.ErrDType},
	{name: "a float8 of 16 bits", lie: func(f *hostile.Fields) { f.DType = abi.DataType{Code: 10, Bits: 16, Lanes: 1} }, want: core.ErrDType},
}

func TestBadInputIsRefusedAndDeletedOnce(t *testing.T) {
	for _, s := range bothStructs {
		for _, c := range badInput {
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				f := valid()
				c.lie(&f)
				p := lend(t, s.new(f))
				_, err := s.take(p, c.opts)
				wantError(t, err, c.want)
				if n := p.Deleted(); n != 1 {
					t.Errorf("the deleter was called %d times", n)
				}
			})
			t.Run(s.name+"/"+c.name+", without a deleter", func(t *testing.T) {
				f := valid()
				c.lie(&f)
				f.NoDeleter = true
				p := lend(t, s.new(f))
				_, err := s.take(p, c.opts)
				wantError(t, err, c.want)
			})
		}
	}
}

func TestUnknownFlagsAreRefused(t *testing.T) {
	for _, flag := range []uint64{1 << 3, 1 << 63} {
		f := valid()
		f.Flags = flag | abi.FlagReadOnly
		p := lend(t, hostile.New(f))
		_, err := dlpack.Import(p.Versioned(), dlpack.ImportOptions{})
		wantError(t, err, core.ErrVersion)
		if n := p.Deleted(); n != 1 {
			t.Errorf("the deleter was called %d times", n)
		}
	}
}

func TestNilIsRefused(t *testing.T) {
	_, err := dlpack.Import(nil, dlpack.ImportOptions{})
	wantError(t, err, core.ErrInvalid)
	_, err = dlpack.ImportLegacy(nil, dlpack.ImportOptions{})
	wantError(t, err, core.ErrInvalid)
	dlpack.Delete(nil)
	dlpack.DeleteLegacy(nil)
}

func TestImportTellsWhatTheStructSays(t *testing.T) {
	for _, s := range bothStructs {
		t.Run(s.name, func(t *testing.T) {
			f := valid()
			f.Strides = []int64{5, 1}
			f.ByteOffset = 8
			p := lend(t, s.new(f))
			tensor := must[*core.Tensor](t)(s.take(p, dlpack.ImportOptions{Size: 8 + 8*4}))
			if got := tensor.Shape(); !slices.Equal(got, f.Shape) {
				t.Errorf("shape %v", got)
			}
			if got := tensor.Layout().Strides(); !slices.Equal(got, f.Strides) {
				t.Errorf("strides %v", got)
			}
			if tensor.DType() != core.TypeFloat32 || tensor.DeviceID() != core.CPU || tensor.Offset() != 8 || tensor.Device() != nil || tensor.Flags() != 0 {
				t.Errorf("%v at offset %d of device %v with flags %d", tensor, tensor.Offset(), tensor.Device(), tensor.Flags())
			}
			if address := must[uintptr](t)(tensor.Address()); address != memory()+8 {
				t.Errorf("the first element is %d bytes into the memory", address-memory())
			}
			if p.Deleted() != 0 {
				t.Error("deleted while the tensor is open")
			}
			closeTensor(t, tensor)
			if p.Deleted() != 1 {
				t.Error("not deleted with the tensor")
			}
		})
	}
}

func TestScalarsNeedNeitherShapeNorStrides(t *testing.T) {
	for _, s := range bothStructs {
		f := valid()
		f.NDim, f.Shape, f.Strides = 0, nil, nil
		p := lend(t, s.new(f))
		tensor := must[*core.Tensor](t)(s.take(p, dlpack.ImportOptions{Size: 4}))
		if tensor.Rank() != 0 || tensor.NumElements() != 1 {
			t.Errorf("%s: %v", s.name, tensor)
		}
		closeTensor(t, tensor)
	}
}

func TestLargestRankPasses(t *testing.T) {
	f := valid()
	f.NDim = core.MaxRank
	f.Shape = slices.Repeat([]int64{1}, core.MaxRank)
	f.Strides = slices.Repeat([]int64{77}, core.MaxRank) // strides of extent 1 are kept as they are
	p := lend(t, hostile.New(f))
	tensor := must[*core.Tensor](t)(dlpack.Import(p.Versioned(), dlpack.ImportOptions{Size: 4}))
	defer closeTensor(t, tensor)
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
	defer dlpack.Delete(m)
	if !slices.Equal(int64s(m.Tensor.Shape, m.Tensor.NDim), f.Shape) || !slices.Equal(int64s(m.Tensor.Strides, m.Tensor.NDim), f.Strides) {
		t.Error("shape or strides were changed on the way")
	}
}

func TestDeleterWaitsForTheLastView(t *testing.T) {
	p := lend(t, hostile.New(valid()))
	tensor := must[*core.Tensor](t)(dlpack.Import(p.Versioned(), dlpack.ImportOptions{}))
	view := must[*core.Tensor](t)(tensor.Transpose())
	closeTensor(t, tensor)
	closeTensor(t, tensor)
	if p.Deleted() != 0 {
		t.Fatal("deleted while a view is open")
	}
	closeTensor(t, view)
	if p.Deleted() != 1 {
		t.Error("not deleted with the last view")
	}
}

// event is work that is done when the test says so.
type event struct{ done chan struct{} }

func (e event) Done() (bool, error) {
	select {
	case <-e.done:
		return true, nil
	default:
		return false, nil
	}
}

func (e event) Wait(context.Context) error {
	<-e.done
	return nil
}

func TestDeleterWaitsForPendingWork(t *testing.T) {
	p := lend(t, hostile.New(valid()))
	tensor := must[*core.Tensor](t)(dlpack.Import(p.Versioned(), dlpack.ImportOptions{}))
	work := event{make(chan struct{})}
	must[*core.Buffer](t)(tensor.Buffer()).Used(work)
	closeTensor(t, tensor)
	if p.Deleted() != 0 {
		t.Fatal("deleted while work uses the memory")
	}
	close(work.done)
	waitFor(t, "the deleter", func() bool { return p.Deleted() == 1 })
	waitFor(t, "the buffer", func() bool { return core.Live()["core.Buffer"] == 0 })
}
