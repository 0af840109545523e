package tensorfile_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// longestSeed keeps mutations quick: real files beyond it teach nothing more.
const longestSeed = 4 << 10

// fuzz proves of any file that it is refused with a typed error of the format, or
// that its tensors can be had, and read equal after they are written again.
func fuzz(f *testing.F, format tensorfile.Format, seeds ...[]byte) {
	for _, name := range realFiles {
		if data := realData(f, name); strings.HasSuffix(name, "."+string(format)) && len(data) <= longestSeed {
			f.Add(data)
		}
	}
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := tensorfile.Parse(data, "x."+string(format), tensorfile.OpenOptions{InflateLimit: 1 << 20, VoidAs: []core.DType{core.TypeFloat16, core.TypeInt8}})
		if err != nil {
			checkRefusal(t, err, format)
			return
		}
		defer func() { _ = file.Close() }()
		var tensors []tensorfile.Named
		for _, info := range file.Tensors() {
			x, err := file.Tensor(info.Name)
			if err != nil {
				checkRefusal(t, err, format)
				continue
			}
			defer func() { _ = x.Close() }()
			tensors = append(tensors, tensorfile.Named{Name: info.Name, Tensor: x})
		}
		if format != tensorfile.Safetensors && !writable(format, tensors) {
			return
		}
		again := must[*tensorfile.File](t)(tensorfile.Parse(written(t, format, tensors), "x."+string(format), tensorfile.OpenOptions{}))
		for _, n := range tensors {
			checkSame(t, must[*core.Tensor](t)(again.Tensor(n.Name)), n.Tensor)
		}
	})
}

// writable reports whether the names, which an archive may hold as any bytes, and the types can be written.
func writable(format tensorfile.Format, tensors []tensorfile.Named) bool {
	for _, n := range tensors {
		if tensorfile.CanWrite(format, []tensorfile.Info{{Name: n.Name, DType: n.Tensor.DType(), Shape: n.Tensor.Shape()}}) != nil {
			return false
		}
		if strings.ToValidUTF8(n.Name, "") != n.Name || len(n.Name) > 1<<15 {
			return false
		}
	}
	return true
}

func checkRefusal(t *testing.T, err error, format tensorfile.Format) {
	t.Helper()
	for _, sentinel := range []error{core.ErrLayout, core.ErrDType, core.ErrVersion, core.ErrInvalid, core.ErrNotSupported, core.ErrOutOfMemory} {
		if errors.Is(err, sentinel) {
			checkError(t, err, format, sentinel, "")
			return
		}
	}
	t.Errorf("%v wraps no sentinel", err)
}

func FuzzNPY(f *testing.F) {
	fuzz(f, tensorfile.NPY,
		npy("{'descr': '<c16', 'fortran_order': True, 'shape': (0, 2L), }"),
		npy(`{"shape":(),"descr":">i4","fortran_order":False}`, 1, 2, 3, 4),
		npy(`{"shape":(2,),"descr":">V2","fortran_order":False}`, 1, 2, 3, 4),
		npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", 1, 2, 3, 4))
}

func FuzzNPZ(f *testing.F) {
	array := npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", 1, 2)
	fuzz(f, tensorfile.NPZ,
		archive(f, packed{name: "a.npy", data: array, method: 8}, packed{name: "b.npy", data: array}, packed{name: "c"}),
		overlapping(f, array))
}

func FuzzSafetensors(f *testing.F) {
	fuzz(f, tensorfile.Safetensors,
		withHeader(`{"__metadata__":{"a":"\u00fc"},"":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}  `, 1),
		withHeader(`{"x":{"shape":[0,1],"dtype":"C64","data_offsets":[0,0]},"y":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, 1))
}

// FuzzRead proves that Read takes what Parse takes, and nothing of what follows it, and refuses with a typed error what it
// does not take.
func FuzzRead(f *testing.F) {
	for _, name := range realFiles {
		if data := realData(f, name); len(data) <= longestSeed {
			f.Add(data, uint16(7))
		}
	}
	f.Add(withHeader(`{"__metadata__":{"a":"b"},"x":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}  `, 1), uint16(0))
	f.Add(npy("{'descr': '<c16', 'fortran_order': True, 'shape': (0, 2L), }"), uint16(1))
	d := openHost(f)
	f.Fuzz(func(t *testing.T, data []byte, more uint16) {
		r := bytes.NewReader(append(data[:len(data):len(data)], make([]byte, more)...))
		l, err := tensorfile.Read(t.Context(), r, d, tensorfile.ReadOptions{MaxBytes: 1 << 20})
		size := len(data) + int(more) - r.Len()
		format := "x.safetensors"
		if bytes.HasPrefix(data, []byte("\x93NUMPY")) {
			format = "x.npy"
		}
		if err != nil {
			var typed *core.Error
			if !errors.As(err, &typed) && err != io.EOF {
				t.Fatalf("%v has no type", err)
			}
			if file, _ := tensorfile.Parse(data, format, tensorfile.OpenOptions{}); file != nil {
				_ = file.Close()
				if !errors.Is(err, core.ErrOutOfMemory) {
					t.Fatalf("Parse takes what Read refuses: %v", err)
				}
			}
			return
		}
		defer func() { _ = l.Close() }()
		message := append(data[:len(data):len(data)], make([]byte, more)...)[:size]
		file := must[*tensorfile.File](t)(tensorfile.Parse(message, format, tensorfile.OpenOptions{}))
		if len(file.Tensors()) != len(l.Tensors) || int64(size) != l.Report.Files[0].Bytes {
			t.Fatalf("%d tensors of %d bytes, want %d of %d", len(l.Tensors), l.Report.Files[0].Bytes, len(file.Tensors()), size)
		}
		for _, info := range file.Tensors() {
			name := info.Name
			if format == "x.npy" {
				name = ""
			}
			checkSame(t, l.Tensors[name], must[*core.Tensor](t)(file.Tensor(info.Name)))
		}
	})
}
