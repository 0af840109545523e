package arrow

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// A tensor goes to an array of tensors and back, with its axes in any order.
func TestFixedShapeShares(t *testing.T) {
	data := numbers[float32](24)
	base := coretest.Keep(t)(core.FromSlice(data, 2, 3, 4))
	for name, c := range map[string]struct {
		axes        []int
		stored      []int64
		permutation []int
		names       []string // of the stored axes
	}{
		"in order": {[]int{0, 1, 2}, []int64{3, 4}, nil, []string{"a", "b"}},
		"turned":   {[]int{0, 2, 1}, []int64{3, 4}, []int{1, 0}, []string{"b", "a"}},
	} {
		x := coretest.Keep(t)(base.Permute(c.axes...))
		a, err := ToFixedShape(t.Context(), x, "a", "b")
		if err != nil {
			t.Fatal(name, err)
		}
		typ := a.DataType().(*FixedShapeType)
		if !slices.Equal(typ.Shape(), c.stored) || !slices.Equal(typ.Permutation(), c.permutation) || !slices.Equal(typ.DimNames(), c.names) {
			t.Errorf("%s: %v", name, typ)
		}
		values := a.Storage().(*array.FixedSizeList).ListValues()
		wantAt(t, values.Data().Buffers()[1].Bytes(), uintptr(unsafe.Pointer(&data[0])))
		second := array.NewSlice(a, 1, 2).(*FixedShapeArray)
		a.Release()
		back := coretest.Keep(t)(FromFixedShape(second))
		second.Release()
		wantReadOnly(t, back)
		wantDims(t, back, append([]int64{1}, x.Shape()[1:]...), x.Layout().Strides())
		if address(t, back) != uintptr(unsafe.Pointer(&data[12])) {
			t.Errorf("%s: something was copied", name)
		}
	}
}

func TestFixedShapeAxes(t *testing.T) {
	keep := coretest.Keep(t)
	base := keep(core.FromSlice(numbers[float32](24), 2, 3, 4))
	row := keep(base.Slice(1, 0, 1, 1))
	for name, x := range map[string]*core.Tensor{
		"the first axis is stored last": keep(base.Permute(1, 0, 2)),
		"gaps":                          keep(base.Slice(2, 0, 3, 1)),
		"broadcast":                     keep(row.Broadcast(2, 3, 4)),
		"no axis":                       keep(core.FromSlice([]float32{1}, []int64{}...)),
		"too many elements":             huge(t),
		"tensors without elements":      keep(core.FromSlice([]float32{}, 2, 0)),
	} {
		_, err := ToFixedShape(t.Context(), x)
		coretest.WantError(t, err, core.ErrLayout, name)
	}
	_, err := ToFixedShape(t.Context(), base, "one")
	coretest.WantError(t, err, core.ErrInvalid, "one name")
	for _, shape := range [][]int64{{0, 3}, {4}, {1, 1, 1}, {2, 1, 3}, {0}} {
		n := int64(1)
		for _, extent := range shape {
			n *= extent
		}
		x := keep(core.FromSlice(make([]float32, n), shape...))
		a, err := ToFixedShape(t.Context(), x)
		if err != nil {
			t.Fatal(shape, err)
		}
		if back := keep(FromFixedShape(a)); !slices.Equal(back.Shape(), shape) {
			t.Errorf("%v became %v", shape, back.Shape())
		}
		a.Release()
	}
}

// huge is a tensor that claims to have more elements than a list can.
func huge(t *testing.T) *core.Tensor {
	data := make([]float32, 1)
	return coretest.Keep(t)(core.Wrap(
		core.Memory{ID: core.CPU, Handle: uintptr(unsafe.Pointer(&data[0])), Size: core.UnknownSize, Owner: core.FreeFunc(func() { _ = data })},
		core.Spec{DType: core.TypeFloat32, Shape: []int64{1, math.MaxInt32 + 1}}))
}

func TestFixedShapeNulls(t *testing.T) {
	values := array.NewInt32Builder(memory.DefaultAllocator)
	defer values.Release()
	values.AppendValues([]int32{1, 2, 3, 4}, []bool{true, true, true, false})
	child := values.NewArray()
	defer child.Release()
	typ, err := NewFixedShapeType(arrow.PrimitiveTypes.Int32, []int64{2}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	build := func(n int) *FixedShapeArray {
		lists := array.NewData(typ.Storage, n, []*memory.Buffer{nil}, []arrow.ArrayData{child.Data()}, 0, 0)
		defer lists.Release()
		storage := array.NewFixedSizeListData(lists)
		defer storage.Release()
		return array.NewExtensionArrayWithStorage(typ, storage).(*FixedShapeArray)
	}
	a := build(2)
	defer a.Release()
	_, err = FromFixedShape(a)
	coretest.WantError(t, err, core.ErrInvalid, "a null in a tensor")
	first := array.NewSlice(a, 0, 1).(*FixedShapeArray)
	defer first.Release()
	coretest.Keep(t)(FromFixedShape(first)) // the null is not in it
	long := build(3)
	defer long.Release()
	_, err = FromFixedShape(long)
	coretest.WantError(t, err, core.ErrInvalid, "more tensors than elements")
}

func TestDeserialize(t *testing.T) {
	storage := arrow.FixedSizeListOf(6, arrow.PrimitiveTypes.Float32)
	for data, want := range map[string]error{
		`{"shape":[2,3]}`: nil,
		`{"shape":[2,3],"permutation":[1,0],"dim_names":["x","y"],"other":1}`: nil,
		`{"shape":[2,3],"permutation":[0,0]}`:                                 core.ErrInvalid,
		`{"shape":[2,3],"permutation":[0]}`:                                   core.ErrInvalid,
		`{"shape":[2,3],"permutation":[0,2]}`:                                 core.ErrInvalid,
		`{"shape":[2,3],"dim_names":["x"]}`:                                   core.ErrInvalid,
		`{"shape":[2,2]}`:                                                     core.ErrInvalid,
		`{"shape":[-2,-3]}`:                                                   core.ErrLayout,
		`{"shape":[9223372036854775807,2]}`:                                   core.ErrLayout,
		`{"shape":[1e99]}`:                                                    core.ErrInvalid,
		`{"Shape":[2,3]}`:                                                     core.ErrInvalid,
		`{"shape":[2,2],"shape":[2,3]}`:                                       core.ErrInvalid,
		`{"shape":"x"}`:                                                       core.ErrInvalid,
		`{}`:                                                                  core.ErrInvalid,
		`[]`:                                                                  core.ErrInvalid,
		``:                                                                    core.ErrInvalid,
	} {
		typ, err := (&FixedShapeType{}).Deserialize(storage, data)
		if want != nil {
			coretest.WantError(t, err, want, data)
			continue
		}
		if err != nil {
			t.Fatal(data, err)
		}
		again, err := (&FixedShapeType{}).Deserialize(storage, typ.Serialize())
		if err != nil || !typ.ExtensionEquals(again) {
			t.Errorf("%s became %s: %v", data, typ.Serialize(), err)
		}
	}
	_, err := (&FixedShapeType{}).Deserialize(arrow.PrimitiveTypes.Int8, `{"shape":[]}`)
	coretest.WantError(t, err, core.ErrInvalid, "another storage")
	_, err = NewFixedShapeType(nil, nil, nil, nil)
	coretest.WantError(t, err, core.ErrInvalid, "no value type")
}

func FuzzDeserialize(f *testing.F) {
	f.Add(int32(6), `{"shape":[2,3],"permutation":[1,0],"dim_names":["x","y"]}`)
	f.Add(int32(1), `{"shape":[]}`)
	f.Fuzz(func(t *testing.T, n int32, data string) {
		if n <= 0 {
			return // arrow-go has no such lists
		}
		typ, err := (&FixedShapeType{}).Deserialize(arrow.FixedSizeListOf(n, arrow.PrimitiveTypes.Int16), data)
		if err != nil {
			return
		}
		again, err := (&FixedShapeType{}).Deserialize(typ.StorageType(), typ.Serialize())
		if err != nil || !typ.ExtensionEquals(again) {
			t.Fatalf("%q became %q: %v", data, typ.Serialize(), err)
		}
		if _, _, err := typ.(*FixedShapeType).layout("test", 2); err != nil && n < math.MaxInt32/2 && n > 0 {
			t.Fatal(err)
		}
	})
}

// python runs a program with PyArrow.
func python(t *testing.T, program string, args ...string) string {
	t.Helper()
	name := os.Getenv("DLX_MODULES_PYTHON")
	if name == "" {
		name = filepath.Join("..", "..", ".venv-modules", "bin", "python")
	}
	if _, err := os.Stat(name); err != nil {
		if testing.Short() {
			t.Skip("PyArrow is not installed: make installs it")
		}
		t.Fatal("PyArrow is not installed: run make .venv-modules/ready, or set DLX_MODULES_PYTHON")
	}
	out, err := exec.CommandContext(t.Context(), name, append([]string{"-c", program}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// PyArrow reads an IPC file with our arrays of tensors, and we read one of PyArrow.
func TestPyArrowFiles(t *testing.T) {
	if err := Register(); err != nil {
		t.Fatal(err)
	}
	if err := Register(); err != nil {
		t.Fatal(err)
	}
	keep, ctx := coretest.Keep(t), t.Context()
	base := keep(core.FromSlice(numbers[float32](24), 2, 3, 4))
	turned := keep(base.Permute(0, 2, 1))
	var columns []arrow.Array
	var fields []arrow.Field
	for i, x := range []*core.Tensor{base, turned} {
		a, err := ToFixedShape(ctx, x, "p", "q")
		if err != nil {
			t.Fatal(err)
		}
		defer a.Release()
		columns, fields = append(columns, a), append(fields, arrow.Field{Name: fmt.Sprint(i), Type: a.DataType()})
	}
	schema := arrow.NewSchema(fields, nil)
	record := array.NewRecordBatch(schema, columns, 2)
	defer record.Release()
	var file bytes.Buffer
	w, err := ipc.NewFileWriter(&file, ipc.WithSchema(schema))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(record); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	from, to := filepath.Join(t.TempDir(), "go.arrow"), filepath.Join(t.TempDir(), "python.arrow")
	if err := os.WriteFile(from, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out := python(t, `
import sys, numpy as np, pyarrow as pa
table = pa.ipc.open_file(sys.argv[1]).read_all()
base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
a, b = table[0].chunk(0), table[1].chunk(0)
assert a.type == pa.fixed_shape_tensor(pa.float32(), (3, 4), dim_names=["p", "q"]), a.type
assert b.type == pa.fixed_shape_tensor(pa.float32(), (3, 4), dim_names=["q", "p"], permutation=[1, 0]), b.type
assert np.array_equal(a.to_numpy_ndarray(), base)
assert np.array_equal(b.to_numpy_ndarray(), base.transpose(0, 2, 1)), b.to_numpy_ndarray()
c = pa.FixedShapeTensorArray.from_numpy_ndarray(base.astype(np.int16))
def tensors(permutation):
    kind = pa.fixed_shape_tensor(pa.int16(), (4, 3, 2), dim_names=["c", "b", "a"], permutation=permutation)
    return pa.ExtensionArray.from_storage(kind, pa.array([list(range(24)), list(range(24, 48))], pa.list_(pa.int16(), 24)))
d, e = tensors([2, 1, 0]), tensors([2, 0, 1])
table = pa.table({"c": c, "d": d, "e": e})
with pa.ipc.new_file(sys.argv[2], table.schema) as file:
    file.write_table(table)
# For d PyArrow computes the strides. For e its own are wrong (26.0.1): these are NumPy's, by the text of the format.
expected = np.arange(48, dtype=np.int16).reshape(2, 4, 3, 2).transpose(0, 3, 1, 2)
for x in d.to_numpy_ndarray(), expected:
    print([int(n) for n in x.shape], [int(n) // 2 for n in x.strides])
`, from, to)

	data, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewFileReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	batch, err := r.RecordBatch(0)
	if err != nil {
		t.Fatal(err)
	}
	c := keep(FromFixedShape(batch.Column(0).(*FixedShapeArray)))
	wantDims(t, c, []int64{2, 3, 4}, []int64{12, 4, 1})
	if got, err := core.At[int16](c, 1, 2, 3); err != nil || got != 23 {
		t.Fatal(got, err)
	}
	for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
		x := keep(FromFixedShape(batch.Column(i + 1).(*FixedShapeArray)))
		got := strings.ReplaceAll(fmt.Sprint(x.Shape(), x.Layout().Strides()), " ", ", ")
		if want := strings.ReplaceAll(line, "] [", "], ["); got != want {
			t.Errorf("PyArrow has shape and strides %s, we have %s", want, got)
		}
		if got, err := core.At[int16](x, 1, 1, 0, 0); err != nil || got != 24+1 {
			t.Error(got, err)
		}
	}
}
