package tensorfile_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// packed is a member of an archive to be made.
type packed struct {
	name   string
	data   []byte
	method uint16
	change func(*zip.FileHeader) // applied before it is written raw, if not nil
}

// archive makes a ZIP archive.
func archive(tb testing.TB, members ...packed) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, Method: m.method}
		var member io.Writer
		var err error
		if m.change == nil {
			member, err = w.CreateHeader(h)
		} else {
			h.CRC32 = crc32.ChecksumIEEE(m.data)
			h.CompressedSize64, h.UncompressedSize64 = uint64(len(m.data)), uint64(len(m.data))
			m.change(h)
			member, err = w.CreateRaw(h)
		}
		if err == nil {
			_, err = member.Write(m.data)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestNPZRefuses(t *testing.T) {
	array := npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", 1, 2, 3, 4)
	member := func(data []byte, change func(*zip.FileHeader)) []byte {
		return archive(t, packed{"x.npy", data, zip.Store, change})
	}
	tests := []struct {
		rule  string
		file  []byte
		want  error
		field string
	}{
		{"empty file", nil, core.ErrInvalid, "central directory"},
		{"no archive", bytes.Repeat([]byte("PK\x03\x04"), 100), core.ErrInvalid, "central directory"},
		{"damaged local header", func() []byte {
			file := member(array, nil)
			file[0] = 0
			return file
		}(), core.ErrInvalid, `member "x.npy": local header`},
		{"size beyond the file", member(array, func(h *zip.FileHeader) { h.CompressedSize64 = 1 << 40 }), core.ErrLayout, `member "x.npy": compressed size`},
		{"sizes of a stored member differ", member(array, func(h *zip.FileHeader) { h.UncompressedSize64++ }), core.ErrLayout, `member "x.npy": it is stored`},
		{"member cut short", member(array[:len(array)-1], nil), core.ErrLayout, `member "x.npy": data`},
		{"bytes behind the array", member(append(slices.Clone(array), 0), nil), core.ErrLayout, `member "x.npy": data`},
		{"damaged array", member(array[1:], nil), core.ErrInvalid, `member "x.npy": magic string`},
		{"name twice", archive(t, packed{name: "x.npy", data: array}, packed{name: "x.npy", data: array}), core.ErrInvalid, `"x" is there twice`},
		{"name twice without extension", archive(t, packed{name: "x.npy", data: array}, packed{name: "x"}), core.ErrInvalid, `"x" is there twice`},
		{"deflated data is garbage", member(bytes.Repeat([]byte{0xff}, 100), func(h *zip.FileHeader) { h.Method = zip.Deflate }), core.ErrInvalid, `member "x.npy"`},
		{"more than deflate can hold", member(array, func(h *zip.FileHeader) { h.Method, h.UncompressedSize64 = zip.Deflate, 1<<40 }), core.ErrLayout, `member "x.npy": uncompressed size`},
		{"members share bytes", overlapping(t, array), core.ErrLayout, "lies inside that of member"},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			_, err := tensorfile.Parse(test.file, "x.npz", tensorfile.OpenOptions{})
			checkError(t, err, tensorfile.NPZ, test.want, test.field)
		})
	}
}

// overlapping makes an archive of two members and lets the directory give both the place of the first.
func overlapping(tb testing.TB, array []byte) []byte {
	file := archive(tb, packed{name: "a.npy", data: array}, packed{name: "b.npy", data: array})
	directory := bytes.LastIndex(file, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(file[directory+42:], 0)
	return file
}

func TestNPZKeepsWhatIsNoTensor(t *testing.T) {
	good := npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }", 7)
	file := archive(t,
		packed{name: "strings.npy", data: npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", 65, 0, 0, 0)},
		packed{name: "deflated.npy", method: zip.Deflate, data: npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 0)},
		packed{name: "notes.txt", data: []byte("text")},
		packed{name: "squeezed.npy", data: good, change: func(h *zip.FileHeader) { h.Method = 12 }},
		packed{name: "secret.npy", data: good, change: func(h *zip.FileHeader) { h.Flags |= 1 }},
		packed{name: "good.npy", data: good},
	)
	f := must[*tensorfile.File](t)(tensorfile.Parse(file, "x.npz", tensorfile.OpenOptions{}))
	reasons := map[string]string{
		"strings": "strings", "deflated": "pickle", "notes.txt": "not an .npy", "squeezed": "method is 12", "secret": "encrypted",
	}
	for _, info := range f.Tensors() {
		x, err := f.Tensor(info.Name)
		reason, refused := reasons[info.Name]
		if !refused {
			must[*core.Tensor](t)(x, err)
			continue
		}
		checkError(t, err, tensorfile.NPZ, core.ErrNotSupported, reason)
		if err != nil && info.Reason != err.Error() {
			t.Errorf("the list says %q, the error is %v", info.Reason, err)
		}
	}
	if n := len(f.Tensors()); n != len(reasons)+1 {
		t.Errorf("%d tensors are listed, want %d", n, len(reasons)+1)
	}
}

func TestNPZInflates(t *testing.T) {
	array := npy("{'descr': '<i8', 'fortran_order': True, 'shape': (2, 500), }", make([]byte, 8000)...)
	file := archive(t, packed{name: "x.npy", data: array, method: zip.Deflate})

	t.Run("into aligned memory of its own", func(t *testing.T) {
		f := must[*tensorfile.File](t)(tensorfile.Parse(file, "x.npz", tensorfile.OpenOptions{InflateLimit: 8000}))
		x := must[*core.Tensor](t)(f.Tensor("x"))
		_ = f.Close()
		if data := elements(t, x); !bytes.Equal(data, array[len(array)-8000:]) {
			t.Error("the elements differ")
		}
		if p, err := x.Address(); err != nil || p%64 != 0 {
			t.Errorf("address %#x, %v", p, err)
		}
	})
	t.Run("up to the limit", func(t *testing.T) {
		f := must[*tensorfile.File](t)(tensorfile.Parse(file, "x.npz", tensorfile.OpenOptions{InflateLimit: 7999}))
		_, err := f.Tensor("x")
		checkError(t, err, tensorfile.NPZ, core.ErrOutOfMemory, "8000 bytes, the limit is 7999")
	})
	t.Run("by default", func(t *testing.T) {
		f := must[*tensorfile.File](t)(tensorfile.Parse(file, "x.npz", tensorfile.OpenOptions{}))
		_ = must[*core.Tensor](t)(f.Tensor("x"))
	})
	t.Run("a limit below 0", func(t *testing.T) {
		_, err := tensorfile.Parse(file, "x.npz", tensorfile.OpenOptions{InflateLimit: -1})
		checkError(t, err, "tensorfile", core.ErrInvalid, "must not be negative")
	})
	for _, test := range []struct {
		rule     string
		inflated []byte // what the member holds, where the directory promises array
		checksum uint32
	}{
		{"not with another checksum", array, crc32.ChecksumIEEE(array) + 1},
		{"not to more than the directory says", append(slices.Clone(array), 0), crc32.ChecksumIEEE(array)},
		{"not to less than the directory says", array[:len(array)-1], crc32.ChecksumIEEE(array[:len(array)-1])},
	} {
		t.Run(test.rule, func(t *testing.T) {
			var deflated bytes.Buffer
			w, err := flate.NewWriter(&deflated, flate.BestSpeed)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(test.inflated); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			f := must[*tensorfile.File](t)(tensorfile.Parse(archive(t, packed{"x.npy", deflated.Bytes(), zip.Deflate, func(h *zip.FileHeader) {
				h.CRC32, h.UncompressedSize64 = test.checksum, uint64(len(array))
			}}), "x.npz", tensorfile.OpenOptions{}))
			_, err = f.Tensor("x")
			checkError(t, err, tensorfile.NPZ, core.ErrInvalid, `tensor "x": its compressed data is damaged`)
		})
	}
}
