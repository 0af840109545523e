//go:build cgo

package arrow

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/cdata"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// The C compiler has laid out the structs of arrow-go's package.
func TestABI(t *testing.T) {
	for name, c := range map[string]struct {
		ours, theirs reflect.Type
		fields       map[string]string
	}{
		"ArrowArray": {reflect.TypeFor[cArray](), reflect.TypeFor[cdata.CArrowArray](), map[string]string{
			"length": "length", "nullCount": "null_count", "offset": "offset", "buffersLen": "n_buffers", "childrenLen": "n_children",
			"buffers": "buffers", "children": "children", "dictionary": "dictionary", "release": "release", "private": "private_data",
		}},
		"ArrowDeviceArray": {reflect.TypeFor[cDeviceArray](), reflect.TypeFor[cdata.CArrowDeviceArray](), map[string]string{
			"array": "array", "deviceID": "device_id", "deviceType": "device_type", "syncEvent": "sync_event", "reserved": "reserved",
		}},
	} {
		if c.ours.Size() != c.theirs.Size() {
			t.Errorf("%s has %d bytes, not %d", name, c.theirs.Size(), c.ours.Size())
		}
		for our, their := range c.fields {
			a, ok := c.ours.FieldByName(our)
			b, okToo := c.theirs.FieldByName(their)
			if !ok || !okToo || a.Offset != b.Offset || a.Type.Size() != b.Type.Size() {
				t.Errorf("%s.%s: %v, %v", name, their, a, b)
			}
		}
	}
}

// structs are the two structs of a consumer. arrow-go fills them with pointers to C's memory only.
type structs struct {
	array  cDeviceArray
	schema cdata.CArrowSchema
}

func (s *structs) release() {
	cdata.ReleaseCArrowArray((*cdata.CArrowArray)(unsafe.Pointer(&s.array)))
	cdata.ReleaseCArrowSchema(&s.schema)
}

func exported(t *testing.T, x *core.Tensor, o ExportOptions) *structs {
	t.Helper()
	s := new(structs)
	if err := ExportDevice(t.Context(), x, unsafe.Pointer(&s.array), unsafe.Pointer(&s.schema), o); err != nil {
		t.Fatal(err)
	}
	return s
}

func imported(t *testing.T, s *structs, o ImportOptions) (*core.Tensor, error) {
	t.Helper()
	return ImportDevice(t.Context(), unsafe.Pointer(&s.array), unsafe.Pointer(&s.schema), o)
}

func TestDeviceShares(t *testing.T) {
	keep := coretest.Keep(t)
	base := keep(core.FromSlice(numbers[float32](24), 2, 3, 4))
	flat := keep(base.Reshape(24))
	for _, x := range []*core.Tensor{
		base, flat, keep(base.Permute(0, 2, 1)), keep(flat.Slice(0, 5, 9, 1)), keep(base.Slice(0, 1, 2, 1)),
		keep(flat.Slice(0, 3, 3, 1)), keep(base.Slice(0, 1, 1, 1)),
	} {
		s := exported(t, x, ExportOptions{})
		if s.array.deviceID != -1 || s.array.deviceType != 1 || s.array.syncEvent != 0 || s.array.array.nullCount != 0 {
			t.Fatalf("%+v", s.array)
		}
		y, err := imported(t, s, ImportOptions{})
		if err != nil {
			t.Fatal(x.Layout(), err)
		}
		if s.array.array.release != 0 {
			t.Fatal("the array was not moved")
		}
		s.release()
		wantReadOnly(t, y)
		if !x.IsEmpty() && address(t, y) != address(t, x) {
			t.Fatal("something was copied")
		}
		if y.DType() != x.DType() || !slices.Equal(x.Shape(), y.Shape()) || !x.IsEmpty() && x.Shape()[0] > 1 && !y.Layout().Equal(x.Layout()) {
			t.Fatalf("%v became %v", x.Layout(), y.Layout())
		}
		y.Close()
	}
}

// A consumer that uses nothing frees everything.
func TestDeviceUnused(t *testing.T) {
	data := numbers[int32](6)
	x := coretest.Keep(t)(core.FromSlice(data, 2, 3))
	s := exported(t, x, ExportOptions{Names: []string{"n"}})
	x.Close()
	s.release()
	s.release()
}

func TestDeviceRefusals(t *testing.T) {
	keep := coretest.Keep(t)
	d := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Log: t.Logf})
	x := keep(core.FromSlice(numbers[int32](6), 2, 3))
	closed := keep(core.FromSlice(numbers[int32](6)))
	closed.Close()
	var s structs
	for name, c := range map[string]struct {
		x    *core.Tensor
		want error
	}{
		"nil": {nil, core.ErrInvalid}, "closed": {closed, core.ErrClosed}, "bools": {keep(core.FromSlice([]bool{true})), core.ErrDType},
		"gaps": {keep(x.Slice(1, 0, 2, 1)), core.ErrLayout}, "opaque": {opaque(t), core.ErrNotSupported},
	} {
		err := ExportDevice(t.Context(), c.x, unsafe.Pointer(&s.array), unsafe.Pointer(&s.schema), ExportOptions{})
		coretest.WantError(t, err, c.want, name)
	}
	if s.array != (cDeviceArray{}) {
		t.Error("a failed export changed the struct")
	}
	coretest.WantError(t, ExportDevice(t.Context(), x, nil, unsafe.Pointer(&s.schema), ExportOptions{}), core.ErrInvalid, "no struct")
	_, err := ImportDevice(t.Context(), unsafe.Pointer(&s.array), nil, ImportOptions{})
	coretest.WantError(t, err, core.ErrInvalid, "no schema")

	// Each entry changes an array of 2 tensors of 3 elements, or of 6 numbers, and is refused.
	child := func(s *structs) *cArray { return *(**cArray)(pointer(s.array.array.children)) }
	bitmap := numbers[int32](1)
	for name, c := range map[string]struct {
		change func(*structs)
		want   error
		rank   int
	}{
		"released":         {func(s *structs) { s.array.array.release = 0 }, core.ErrClosed, 1},
		"reserved":         {func(s *structs) { s.array.reserved[1] = 1 }, core.ErrVersion, 1},
		"length":           {func(s *structs) { s.array.array.length = -1 }, core.ErrInvalid, 1},
		"huge length":      {func(s *structs) { s.array.array.length = math.MaxInt64 }, core.ErrInvalid, 1},
		"offset":           {func(s *structs) { s.array.array.offset = -1 }, core.ErrInvalid, 1},
		"huge offset":      {func(s *structs) { s.array.array.offset = math.MaxInt64 }, core.ErrInvalid, 1},
		"no buffers":       {func(s *structs) { s.array.array.buffersLen = 0 }, core.ErrInvalid, 1},
		"NULL buffers":     {func(s *structs) { s.array.array.buffers = 0 }, core.ErrInvalid, 1},
		"children":         {func(s *structs) { s.array.array.childrenLen = 1 }, core.ErrInvalid, 1},
		"dictionary":       {func(s *structs) { s.array.array.dictionary = 1 }, core.ErrInvalid, 1},
		"nulls":            {func(s *structs) { setBuffer(s, 0, bitmap); s.array.array.nullCount = 1 }, core.ErrInvalid, 1},
		"impossible nulls": {func(s *structs) { s.array.array.nullCount = 1 }, core.ErrInvalid, 1},
		"unknown nulls":    {func(s *structs) { setBuffer(s, 0, bitmap); s.array.array.nullCount = -1 }, core.ErrInvalid, 1},
		"NULL data":        {func(s *structs) { setBuffer[int32](s, 1, nil) }, core.ErrInvalid, 1},
		"opaque device":    {func(s *structs) { s.array.deviceType = int32(core.DeviceVulkan) }, core.ErrNotSupported, 1},
		"unknown device":   {func(s *structs) { s.array.deviceType = 99 }, core.ErrNotSupported, 1},
		"negative device":  {func(s *structs) { s.array.deviceType, s.array.deviceID = 2, -1 }, core.ErrDevice, 1},
		"huge device":      {func(s *structs) { s.array.deviceType, s.array.deviceID = 2, 1<<32 }, core.ErrDevice, 1},
		"event":            {func(s *structs) { s.array.syncEvent = 1 }, core.ErrNotSupported, 1},
		"no children":      {func(s *structs) { s.array.array.childrenLen = 0 }, core.ErrInvalid, 2},
		"NULL children":    {func(s *structs) { s.array.array.children = 0 }, core.ErrInvalid, 2},
		"lists":            {func(s *structs) { s.array.array.length = 3 }, core.ErrInvalid, 2},
		"many lists":       {func(s *structs) { s.array.array.length = math.MaxInt64 }, core.ErrInvalid, 2},
		"lists far away":   {func(s *structs) { s.array.array.offset = math.MaxInt64 - 1 }, core.ErrInvalid, 2},
		"released child":   {func(s *structs) { child(s).release = 0 }, core.ErrClosed, 2},
		"child's length":   {func(s *structs) { child(s).length = 5 }, core.ErrInvalid, 2},
		"child's offset":   {func(s *structs) { child(s).offset = math.MaxInt64 }, core.ErrInvalid, 2},
		"negative child":   {func(s *structs) { child(s).offset = -1 }, core.ErrInvalid, 2},
		"child's buffers":  {func(s *structs) { child(s).buffersLen = 1 }, core.ErrInvalid, 2},
		"child's children": {func(s *structs) { child(s).childrenLen = 1 }, core.ErrInvalid, 2},
	} {
		y := x
		if c.rank == 1 {
			y = keep(x.Reshape(6))
		}
		s := exported(t, y, ExportOptions{})
		good, goodChild := s.array, cArray{}
		buffers := unsafe.Slice((*uintptr)(pointer(good.array.buffers)), good.array.buffersLen)
		goodBuffers := slices.Clone(buffers)
		if c.rank == 2 {
			goodChild = *child(s)
		}
		c.change(s)
		changed := s.array
		_, err := imported(t, s, ImportOptions{})
		coretest.WantError(t, err, c.want, name)
		if s.array != changed {
			t.Errorf("%s: the struct was changed", name)
		}
		s.array = good // the caller still owns it
		copy(buffers, goodBuffers)
		if c.rank == 2 {
			*child(s) = goodChild
		}
		s.release()
	}
	s2 := exported(t, x, ExportOptions{})
	_, err = imported(t, s2, ImportOptions{Device: d})
	coretest.WantError(t, err, core.ErrDevice, "another device")
	s2.release()
}

func setBuffer[T any](s *structs, i int, data []T) {
	unsafe.Slice((*uintptr)(pointer(s.array.array.buffers)), 2)[i] = uintptr(unsafe.Pointer(unsafe.SliceData(data)))
}

// opaque returns a tensor in memory that has a handle and no address.
func opaque(t *testing.T) *core.Tensor {
	return coretest.Keep(t)(core.Wrap(core.Memory{ID: core.DeviceID{Type: core.DeviceVulkan}, Handle: 7, Size: 8},
		core.Spec{DType: core.TypeInt32, Shape: []int64{2}}))
}

// PyArrow and a Go library share one process: each reads the memory of the other.
func TestPyArrowDevice(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a C library: not in short tests")
	}
	library := filepath.Join(t.TempDir(), "cshared.so")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildmode=c-shared", "-o", library, "./internal/cshared").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(filepath.Join("internal", "cshared", "check.py"))
	if err != nil {
		t.Fatal(err)
	}
	if out := python(t, string(program), library); !strings.Contains(out, "ok") {
		t.Fatal(out)
	}
}
