//go:build cgo

package opencv

import (
	"context"
	"errors"
	"fmt"
	"image"
	"log"
	"slices"
	"testing"
	"unsafe"

	"gocv.io/x/gocv"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/stream"
)

// OpenCV converts a picture of a tensor to gray, in memory of another tensor: no pixel is copied between the two.
func ExampleToImage() {
	ctx := context.Background()
	picture, _ := core.FromSlice([]uint8{255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255}, 2, 2, 3) // blue, green; red, white
	defer picture.Close()
	in, err := ToImage(ctx, picture)
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()
	out := gocv.NewMat()
	defer out.Close()
	gocv.CvtColor(in, &out, gocv.ColorBGRToGray)

	gray, err := FromMat(&out)
	if err != nil {
		log.Fatal(err)
	}
	defer gray.Close()
	values, _ := core.ToSlice[uint8](ctx, gray)
	fmt.Println(gray.Shape(), values[0], values[1], values[2], values[3])
	// Output: [2 2] 29 150 76 255
}

func address(t *testing.T, m *gocv.Mat) uintptr {
	t.Helper()
	p, err := m.DataPtrUint8()
	if err != nil {
		t.Fatal(err)
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(p)))
}

// Tensors of matrices have their addresses, types, shapes and strides.
func TestFromMat(t *testing.T) {
	for depth, dtype := range depths {
		for _, channels := range []int{1, 3} {
			m := gocv.NewMatWithSize(4, 6, gocv.MatType(depth+(channels-1)*8))
			x, err := FromMat(&m)
			if err != nil {
				t.Fatal(err)
			}
			want := []int64{4, 6}
			if channels > 1 {
				want = append(want, 3)
			}
			if x.DType() != dtype || !slices.Equal(x.Shape(), want) || !x.Layout().IsContiguous() || x.ReadOnly() {
				t.Errorf("depth %d with %d channels became %v", depth, channels, x)
			}
			m.Close()
			x.Close()
		}
	}
	m := gocv.NewMatWithSize(8, 10, gocv.MatTypeCV8UC3)
	at := address(t, &m)
	part := m.Region(image.Rect(2, 3, 7, 6))
	x, err := FromMat(&part)
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	part.Close()
	if got, _ := x.Address(); got != at+3*30+2*3 {
		t.Errorf("a region is at %#x instead of %#x: it was copied", got, at+3*30+2*3)
	}
	if fmt.Sprint(x.Shape(), x.Layout().Strides()) != "[3 5 3] [30 3 1]" {
		t.Errorf("a region has the layout %v", x.Layout())
	}
	if err := core.Fill(t.Context(), x, uint8(9)); err != nil { // the memory is still there
		t.Error(err)
	}
	if n := core.Live()["opencv.Mat"]; n != 1 {
		t.Errorf("%d headers are open", n)
	}
	x.Close()
	cube := gocv.NewMatWithSizes([]int{2, 3, 4}, gocv.MatTypeCV32F)
	defer cube.Close()
	y, err := FromMat(&cube)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	if fmt.Sprint(y.Shape()) != "[2 3 4]" || y.DType() != core.TypeFloat32 {
		t.Errorf("a matrix of three axes became %v", y)
	}
}

func TestFromMatMisuse(t *testing.T) {
	closed := gocv.NewMatWithSize(2, 2, gocv.MatTypeCV8U)
	closed.Close()
	empty := gocv.NewMat()
	defer empty.Close()
	bytes := make([]byte, 4)
	foreign, err := gocv.NewMatFromBytes(2, 2, gocv.MatTypeCV8U, bytes)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	for name, m := range map[string]*gocv.Mat{"nil": nil, "closed": &closed, "empty": &empty, "of Go's memory": &foreign} {
		_, err := FromMat(m)
		coretest.WantError(t, err, core.ErrInvalid, "FromMat of a matrix that is "+name)
	}
}

// OpenCV reads and writes the memory of the tensor, which lives until the last matrix is closed.
func TestToMat(t *testing.T) {
	freed := 0
	values := make([]float32, 5*8)
	backing, err := core.FromSlice(values)
	if err != nil {
		t.Fatal(err)
	}
	defer backing.Close()
	at, _ := backing.Address()
	x, err := core.Wrap(core.Memory{ID: core.CPU, Handle: at, Size: 160, Owner: core.FreeFunc(func() { freed++ })},
		core.Spec{DType: core.TypeFloat32, Shape: []int64{5, 6}, Strides: []int64{8, 1}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := ToMat(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	if m.Rows() != 5 || m.Cols() != 6 || m.Type() != gocv.MatTypeCV32F || m.Step() != 32 {
		t.Errorf("%d x %d of type %v, step %d", m.Rows(), m.Cols(), m.Type(), m.Step())
	}
	m.SetFloatAt(4, 5, 7)
	if values[4*8+5] != 7 {
		t.Error("what OpenCV writes is not in the tensor's memory: it was copied")
	}
	again, err := FromMat(&m)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := again.Address(); got != at || fmt.Sprint(again.Layout().Strides()) != "[8 1]" {
		t.Errorf("there and back: %#x instead of %#x, %v", got, at, again.Layout())
	}
	row := m.RowRange(1, 2)
	m.Close()
	again.Close()
	dlpack.Flush()
	if freed != 0 {
		t.Error("the memory was freed while a row of the matrix is open")
	}
	row.Close()
	dlpack.Flush()
	if freed != 1 {
		t.Errorf("the memory was freed %d times", freed)
	}

	// A matrix that gets another size leaves the tensor's memory to the tensor.
	y, _ := core.FromSlice([]uint8{1, 2, 3, 4}, 2, 2)
	n, err := ToMat(t.Context(), y)
	if err != nil {
		t.Fatal(err)
	}
	before := core.Live()
	large := gocv.NewMatWithSize(30, 40, gocv.MatTypeCV8U)
	large.CopyTo(&n)
	large.Close()
	if n.Rows() != 30 {
		t.Errorf("a copy has %d rows (%v)", n.Rows(), before)
	}
	if v, _ := core.ToSlice[uint8](t.Context(), y); !slices.Equal(v, []uint8{1, 2, 3, 4}) {
		t.Errorf("the tensor has changed: %v", v)
	}
	y.Close()
	n.Close()

	column, _ := core.FromSliceStrided([]int32{1, 0, 2, 0, 3}, 0, []int64{3}, []int64{2})
	c, err := ToMat(t.Context(), column)
	if err != nil {
		t.Fatal(err)
	}
	if c.Rows() != 3 || c.Cols() != 1 || c.GetIntAt(2, 0) != 3 {
		t.Errorf("one axis became %d x %d", c.Rows(), c.Cols())
	}
	c.Close()
	column.Close()
	dlpack.Flush()
}

func TestToMatMisuse(t *testing.T) {
	keep := coretest.Keep(t)
	x := keep(core.FromSlice(make([]uint8, 24), 4, 6))
	closed, _ := x.Share()
	closed.Close()
	b := coretest.NewBackend(coretest.Options{})
	d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceExt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the end of the tensors below
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, c := range map[string]struct {
		x    *core.Tensor
		want error
	}{
		"nil":                  {nil, core.ErrInvalid},
		"closed":               {closed, core.ErrClosed},
		"empty":                {keep(core.FromSlice([]uint8{}, 0, 3)), core.ErrInvalid},
		"read-only":            {keep(x.AsReadOnly()), core.ErrReadOnly},
		"of 64 bits":           {keep(core.FromSlice([]int64{1, 2}, 2)), core.ErrDType},
		"transposed":           {keep(x.Transpose()), core.ErrLayout},
		"reversed":             {keep(core.FromSliceStrided(make([]uint8, 24), 18, []int64{4, 6}, []int64{-6, 1})), core.ErrLayout},
		"with columns skipped": {keep(x.Slice(1, 0, 6, 2)), core.ErrLayout},
		"broadcast":            {keep(keep(x.Slice(0, 0, 1, 1)).Broadcast(4, 6)), core.ErrReadOnly},
		"on a device":          {coretest.Row(t, d, 16, core.AllocOptions{}), core.ErrDevice},
	} {
		if _, err := ToMat(t.Context(), c.x); !errors.Is(err, c.want) {
			t.Errorf("ToMat of a tensor that is %s: %v instead of %v", name, err, c.want)
		}
	}
	wide := keep(core.FromSlice(make([]uint8, 1026), 2, 513))
	for name, bad := range map[string]*core.Tensor{"one axis": keep(core.FromSlice([]uint8{1, 2})), "513 channels": wide, "channels apart": keep(x.Transpose())} {
		_, err := ToImage(t.Context(), bad)
		coretest.WantError(t, err, core.ErrLayout, "ToImage of "+name)
	}
	many := make([]int64, 33)
	for i := range many {
		many[i] = 1
	}
	_, err = ToMat(t.Context(), keep(core.FromSlice([]uint8{1}, many...)))
	coretest.WantError(t, err, core.ErrLayout, "ToMat of 33 axes")
	dlpack.Flush()
}

// The program may write to a matrix, so it is handed out when nothing reads the memory any more.
func TestToMatWaits(t *testing.T) {
	x := coretest.Keep(t)(core.FromSlice(make([]byte, 4), 2, 2))
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	read := stream.NewEvent()
	b.Used(read)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ToMat(ended, x); !errors.Is(err, context.Canceled) {
		t.Errorf("while the memory is read: %v", err)
	}
	read.Complete(nil)
	m, err := ToMat(ended, x)
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	dlpack.Flush()
}
