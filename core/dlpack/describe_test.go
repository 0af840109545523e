//go:build cgo && !windows

package dlpack_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
)

// wantDescribed compares a description with a tensor that was imported from the same struct, or with the error of that.
func wantDescribed(t *testing.T, d *dlpack.Description, tensor *core.Tensor, read, imported error) {
	t.Helper()
	for _, sentinel := range []error{core.ErrInvalid, core.ErrVersion, core.ErrDType, core.ErrDevice, core.ErrLayout} {
		if errors.Is(read, sentinel) != errors.Is(imported, sentinel) {
			t.Errorf("Read: %v; Import: %v", read, imported)
		}
	}
	if (read == nil) != (imported == nil) {
		t.Fatalf("Read: %v; Import: %v", read, imported)
	}
	if read != nil {
		if d.DType().Valid() || d.Rank() != 0 || d.Flags() != 0 {
			t.Errorf("after %v it still describes %v", read, d.DType())
		}
		return
	}
	_, offset := d.Data()
	if !d.Layout().Equal(tensor.Layout()) || d.Rank() != tensor.Rank() || d.DType() != tensor.DType() || d.DeviceID() != tensor.DeviceID() || d.Flags() != tensor.Flags() || offset != tensor.Offset() {
		t.Errorf("%v was described as %v with %v on %v, flags %v, offset %d", tensor, d.Layout(), d.DType(), d.DeviceID(), d.Flags(), offset)
	}
}

// A description says what an import would make, or fails as that would, and leaves the struct alone.
func TestDescriptionIsWhatImportMakes(t *testing.T) {
	var d dlpack.Description
	compare := func(t *testing.T, f hostile.Fields, options dlpack.ImportOptions) {
		p := lend(t, hostile.New(f))
		read := d.Read(p.Versioned(), options)
		if p.Deleted() != 0 {
			t.Error("Read called the deleter")
		}
		tensor, imported := dlpack.Import(p.Versioned(), options)
		wantDescribed(t, &d, tensor, read, imported)
		if imported == nil {
			closeTensor(t, tensor)
		}
	}
	for _, c := range badInput {
		f := valid()
		c.lie(&f)
		t.Run(c.name, func(t *testing.T) { compare(t, f, c.opts) })
		t.Run("valid after "+c.name, func(t *testing.T) { compare(t, valid(), dlpack.ImportOptions{}) })
	}
	many := valid()
	many.NDim, many.Shape, many.Strides = 6, []int64{1, 2, 1, 2, 1, 2}, nil
	t.Run("six axes", func(t *testing.T) { compare(t, many, dlpack.ImportOptions{}) })
	strided := valid()
	strided.Strides, strided.ByteOffset = []int64{5, 1}, 8
	t.Run("strides", func(t *testing.T) { compare(t, strided, dlpack.ImportOptions{}) })
}

func TestElements(t *testing.T) {
	tensor := iota32(t, 2, 3)
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
	defer dlpack.Delete(m)
	var d dlpack.Description
	if err := d.Read(m, dlpack.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := must[[]float32](t)(dlpack.Elements[float32](&d)); !slices.Equal(got, []float32{0, 1, 2, 3, 4, 5}) {
		t.Error(got)
	}
	var dims [8]int64
	if !d.PutDims(&dims) || dims != [8]int64{2, 3, 3, 1} {
		t.Error(dims)
	}
	_, err := dlpack.Elements[int32](&d)
	wantError(t, err, core.ErrDType)
	var zero dlpack.Description
	_, err = dlpack.Elements[float32](&zero)
	wantError(t, err, core.ErrInvalid)
	_, err = dlpack.Elements[float32](nil)
	wantError(t, err, core.ErrInvalid)
	wantError(t, (*dlpack.Description)(nil).Read(m, dlpack.ImportOptions{}), core.ErrInvalid)
	wantError(t, zero.Read(nil, dlpack.ImportOptions{}), core.ErrInvalid)

	for name, c := range map[string]struct {
		lie  func(*hostile.Fields)
		want error
	}{
		"strides":     {func(f *hostile.Fields) { f.Strides = []int64{1, 2} }, core.ErrLayout},
		"alignment":   {func(f *hostile.Fields) { f.ByteOffset = 2 }, core.ErrLayout},
		"device":      {func(f *hostile.Fields) { f.Device.Type = int32(core.DeviceCUDA) }, core.ErrDevice},
		"no elements": {func(f *hostile.Fields) { f.Shape, f.Data = []int64{2, 0}, 0 }, nil},
	} {
		f := valid()
		c.lie(&f)
		p := lend(t, hostile.New(f))
		if err := d.Read(p.Versioned(), dlpack.ImportOptions{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		values, err := dlpack.Elements[float32](&d)
		if c.want != nil {
			wantError(t, err, c.want)
		} else if err != nil || len(values) != 0 {
			t.Errorf("%s: %v, %v", name, values, err)
		}
		dlpack.Delete(p.Versioned())
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	m := hostile.Immortal()
	var d dlpack.Description
	if n := testing.AllocsPerRun(100, func() {
		if err := d.Read(m, dlpack.ImportOptions{}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
