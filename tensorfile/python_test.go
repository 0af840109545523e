package tensorfile_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// record is a tensor in a file as the Python libraries see it.
type record struct {
	File  string  `json:"file"`
	Name  string  `json:"name"`
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"`
	Data  string  `json:"data"` // row-major, hexadecimal
}

// safetensorsNames are the names of types that safetensors spells otherwise than dlx.
var safetensorsNames = map[string]string{
	"BOOL": "bool", "F4": "float4_e2m1fn", "F6_E2M3": "float6_e2m3fn", "F6_E3M2": "float6_e3m2fn",
	"U8": "uint8", "I8": "int8", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu",
	"F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "I16": "int16", "U16": "uint16",
	"F16": "float16", "BF16": "bfloat16", "I32": "int32", "U32": "uint32", "F32": "float32", "C64": "complex64",
	"F64": "float64", "I64": "int64", "U64": "uint64",
}

// dtype is the record's type as dlx spells it.
func (r record) dtype() string {
	if name, ok := safetensorsNames[r.DType]; ok {
		return name
	}
	return r.DType
}

// python runs testdata/crosscheck.py on a folder.
func python(t *testing.T, mode, folder string) []record {
	t.Helper()
	interpreter := os.Getenv("DLX_PYTHON")
	if interpreter == "" {
		t.Skip("DLX_PYTHON names no Python interpreter that has numpy and safetensors")
	}
	command := exec.Command(interpreter, filepath.Join("testdata", "crosscheck.py"), mode, folder)
	var failure bytes.Buffer
	command.Stderr = &failure
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, failure.String())
	}
	var records []record
	if err := json.Unmarshal(out, &records); err != nil {
		t.Fatal(err)
	}
	return records
}

func TestReadsWhatPythonWrites(t *testing.T) {
	folder := t.TempDir()
	records := python(t, "write", folder)
	files := make(map[string]*tensorfile.File)
	tensors := 0
	for _, r := range records {
		f := files[r.File]
		if f == nil {
			f = must[*tensorfile.File](t)(tensorfile.Open(filepath.Join(folder, r.File), tensorfile.OpenOptions{}))
			files[r.File] = f
			tensors += len(f.Tensors())
		}
		x := must[*core.Tensor](t)(f.Tensor(r.Name))
		if x.DType().String() != r.dtype() || !slices.Equal(x.Shape(), r.Shape) {
			t.Errorf("%s, %s: read %v, Python wrote %s%v", r.File, r.Name, x, r.DType, r.Shape)
		} else if got := hex.EncodeToString(elements(t, x)); got != r.Data {
			t.Errorf("%s, %s: read %s, Python wrote %s", r.File, r.Name, got, r.Data)
		}
	}
	if len(records) < 300 || tensors != len(records) {
		t.Errorf("%d tensors were written and %d found", len(records), tensors)
	}
	if got := files["all.safetensors"].Metadata()["text"]; got != "ü \"\\\u2028" {
		t.Errorf("metadata %q", got)
	}
}

func TestPythonReadsWhatIsWritten(t *testing.T) {
	folder := t.TempDir()
	want := make(map[string]*core.Tensor) // by file and name
	write := func(file string, tensors []tensorfile.Named, options tensorfile.WriteOptions) {
		t.Helper()
		if err := tensorfile.WriteFile(context.Background(), filepath.Join(folder, file), tensors, options); err != nil {
			t.Fatal(err)
		}
		for _, n := range tensors {
			want[file+"/"+n.Name] = n.Tensor
		}
	}
	for _, n := range everything(t, tensorfile.NPY) {
		write(n.Name+".npy", []tensorfile.Named{n}, tensorfile.WriteOptions{})
	}
	all := everything(t, tensorfile.NPZ)
	all = append(all, tensorfile.Named{Name: "fólder/ü 数", Tensor: all[0].Tensor})
	write("stored.npz", all, tensorfile.WriteOptions{})
	write("compressed.npz", all, tensorfile.WriteOptions{Compress: true})
	all = everything(t, tensorfile.Safetensors)
	all = append(all, tensorfile.Named{Name: "quote\" \\ \u2028 <&> 数", Tensor: all[0].Tensor})
	write("all.safetensors", all, tensorfile.WriteOptions{Metadata: map[string]string{"text": "ü \"\\\u2028"}})

	for _, r := range python(t, "read", folder) {
		key := r.File + "/" + r.Name
		x := want[key]
		delete(want, key)
		switch {
		case x == nil:
			t.Errorf("Python finds %s, which was not written", key)
		case x.DType().String() != r.dtype() || !slices.Equal(x.Shape(), r.Shape):
			t.Errorf("%s: Python reads %s%v, written was %v", key, r.DType, r.Shape, x)
		case hex.EncodeToString(elements(t, x)) != r.Data:
			t.Errorf("%s: Python reads other elements", key)
		}
	}
	for key := range want {
		t.Errorf("Python does not find %s", strings.TrimSpace(key))
	}
}
