package tensorfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
	"github.com/dlx-go/dlx/tensorfile"
)

// messages are files whose content is a message.
func messages(t *testing.T) []string {
	return []string{mixed(t, t.TempDir()), realPath("digits.npy"), realPath("digits_fortran.npy"), realPath("digits.safetensors")}
}

// checkRead fails the test unless l has the tensors of the file.
func checkRead(t *testing.T, path string, d core.Device, l *tensorfile.Loaded) {
	t.Helper()
	t.Cleanup(func() { _ = l.Close() })
	if x := l.Tensors[""]; x != nil { // a message has no name for it
		name := strings.TrimSuffix(filepath.Base(path), ".npy")
		l.Tensors = map[string]*core.Tensor{name: x}
		l.Names = []string{name}
	}
	checkLoaded(t, path, d, l)
}

// Messages follow each other, and what follows the last one stays in the reader.
func TestReadEndsWhereTheMessageEnds(t *testing.T) {
	paths := messages(t)
	const tail = "what others read"
	var all []byte
	for _, path := range paths {
		all = append(all, content(t, path)...)
	}
	all = append(all, tail...)
	readers := map[string]func(io.Reader) io.Reader{
		"whole":          func(r io.Reader) io.Reader { return r },
		"halves":         iotest.HalfReader,
		"data and error": iotest.DataErrReader,
	}
	for _, to := range targets {
		for kind, wrap := range readers {
			for _, budget := range []int64{0, 128 << 10} {
				d := to.open(t)
				source := bytes.NewReader(all)
				r := wrap(source)
				for _, path := range paths {
					before := source.Len()
					l, err := tensorfile.Read(t.Context(), r, d, tensorfile.ReadOptions{Budget: budget})
					if err != nil {
						t.Fatalf("%s, %s: %s: %v", to.name, kind, path, err)
					}
					size := int64(len(content(t, path)))
					if got := int64(before - source.Len()); got != size && kind != "data and error" { // which reads ahead itself
						t.Errorf("%s, %s: %s has %d bytes, and %d were read", to.name, kind, path, size, got)
					}
					file := l.Report.Files[0]
					if budget > 0 && l.Report.Staged > budget || file.Read != tensorfile.ReadStream || file.Bytes != size {
						t.Errorf("%s: %s: report %+v", to.name, path, l.Report)
					}
					f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
					if fmt.Sprint(l.Metadata) != fmt.Sprint(f.Metadata()) {
						t.Errorf("%s: metadata %q, want %q", path, l.Metadata, f.Metadata())
					}
					checkRead(t, path, d, l)
				}
				if rest, err := io.ReadAll(r); string(rest) != tail || err != nil {
					t.Errorf("%s, %s: %q is left, %v", to.name, kind, rest, err)
				}
			}
		}
	}
}

// A message that fits into what was read is read without waiting for more, byte by byte, too.
func TestReadOfSingleBytes(t *testing.T) {
	d := targets[2].open(t)
	data := bytes.NewReader(content(t, realPath("digits.safetensors")))
	l, err := tensorfile.Read(t.Context(), iotest.OneByteReader(data), d, tensorfile.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkRead(t, realPath("digits.safetensors"), d, l)
	if _, err := tensorfile.Read(t.Context(), data, d, tensorfile.ReadOptions{}); err != io.EOF {
		t.Errorf("after the last message: %v", err)
	}
}

// What Read does on the way is what Load does.
func TestReadOptionsAreThoseOfLoad(t *testing.T) {
	paths := messages(t)
	for i, o := range []tensorfile.LoadOptions{
		{Only: []string{"la*", "empty"}, Checksum: tensorfile.SHA256},
		{Only: []string{"huge"}, Slices: []tensorfile.Slice{{Axis: 2, Index: 1, Count: 3}}, Checksum: tensorfile.CRC32C},
		{Only: []string{"huge", "large"}, Slices: []tensorfile.Slice{{Axis: 1, Index: 1, Count: 300}}, DType: core.TypeFloat64},
		{Slices: []tensorfile.Slice{{Axis: 0, Index: 2, Count: 3}}, RowMajor: true},
		{DType: core.TypeFloat32, RowMajor: true, Checksum: tensorfile.CRC32C},
	} {
		path := paths[0]
		if o.RowMajor {
			path = paths[2]
		}
		for _, to := range targets {
			d := to.open(t)
			want := load(t, path, d, o)
			var last, total int64
			r := bytes.NewReader(append(content(t, path), 1, 2, 3))
			got, err := tensorfile.Read(t.Context(), r, d, tensorfile.ReadOptions{
				Only: o.Only, Slices: o.Slices, DType: o.DType, RowMajor: o.RowMajor, Checksum: o.Checksum, Budget: 256 << 10,
				Progress: func(done, of int64) { last, total = done, of },
			})
			if err != nil || r.Len() != 3 {
				t.Fatalf("%d, %s: %v, and %d bytes are left", i, to.name, err, r.Len())
			}
			defer func() { _ = got.Close() }()
			if last != total || total != got.Report.Read {
				t.Errorf("%d, %s: progress ended at %d of %d, read %d", i, to.name, last, total, got.Report.Read)
			}
			if len(got.Names) != len(want.Names) || len(got.Names) == 0 {
				t.Errorf("%d, %s: %q, want %q", i, to.name, got.Names, want.Names)
				continue
			}
			for j, name := range got.Names {
				x := want.Tensors[want.Names[j]]
				checkEqual(t, onHost(t, d, got.Tensors[name]), onHost(t, d, x))
				if a, b := got.Report.Checksums[name], want.Report.Checksums[want.Names[j]]; a != b || o.Checksum != "" && a == "" {
					t.Errorf("%d, %s: %q has checksum %q, want %q", i, to.name, name, a, b)
				}
			}
		}
	}
}

// A message that ends too early is an error that says where, for each length.
func TestReadOfAMessageThatIsCut(t *testing.T) {
	for _, data := range [][]byte{
		withHeader(`{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}`, 1, 2, 3, 4, 5),
		npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", 1, 2, 3, 4),
	} {
		for _, to := range targets {
			d := to.open(t)
			for n := range data {
				l, err := tensorfile.Read(t.Context(), bytes.NewReader(data[:n]), d, tensorfile.ReadOptions{})
				if err == nil {
					_ = l.Close()
				}
				var typed *core.Error
				switch {
				case n == 0:
					if err != io.EOF {
						t.Errorf("%s: nothing: %v", to.name, err)
					}
				case !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, core.ErrInvalid) || errors.Is(err, io.EOF) || !errors.As(err, &typed) || typed.Call != "Read":
					t.Errorf("%s: %d bytes: %v", to.name, n, err)
				}
			}
		}
	}
	data := withHeader(`{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}`, 1, 2, 3, 4)
	for text, options := range map[string]tensorfile.ReadOptions{
		`tensor "b" has 2 bytes, but the message ends after 1`: {},
		`"b"`: {Only: []string{"a"}},
	} {
		_, err := tensorfile.Read(t.Context(), bytes.NewReader(data), openHost(t), options)
		if coretest.WantError(t, err, io.ErrUnexpectedEOF, text); err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%v: it does not say %q", err, text)
		}
	}
}

// Arrays in the other byte order and of raw void are read as from files.
func TestReadOfOtherArrays(t *testing.T) {
	for _, to := range targets {
		d := to.open(t)
		r := bytes.NewReader(append(npy("{'descr': '>i4', 'fortran_order': True, 'shape': (2,), }", 0, 0, 0, 1, 0, 0, 2, 0),
			npy("{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }", 1, 2, 3, 4)...))
		want := []*core.Tensor{
			must[*core.Tensor](t)(core.FromSlice([]int32{1, 512})),
			must[*core.Tensor](t)(core.NewTensor(buffer(t, []uint16{0x201, 0x403}), core.Spec{DType: core.TypeBFloat16, Shape: []int64{2}})),
		}
		for i := range want {
			l, err := tensorfile.Read(t.Context(), r, d, tensorfile.ReadOptions{VoidAs: []core.DType{core.TypeBFloat16}})
			if err != nil {
				t.Fatalf("%s: %v", to.name, err)
			}
			checkEqual(t, onHost(t, d, l.Tensors[""]), want[i])
			if l.Report.Swapped != 1-i {
				t.Errorf("%s: %d swapped", to.name, l.Report.Swapped)
			}
			_ = l.Close()
		}
	}
}

// buffer returns the memory of values, which stays open until the end of the test.
func buffer[T core.Element](t *testing.T, values []T) *core.Buffer {
	t.Helper()
	b, err := must[*core.Tensor](t)(core.FromSlice(values)).Buffer()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// liar is a reader with a wrong count.
type liar int

func (n liar) Read([]byte) (int, error) { return int(n), nil }

func TestReadRefuses(t *testing.T) {
	lost := errors.New("the line is cut")
	huge := fmt.Sprintf(`{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%[1]d]}}`, int64(math.MaxInt64))
	for _, c := range []struct {
		r       io.Reader
		options tensorfile.ReadOptions
		want    error
		text    string
	}{
		{nil, tensorfile.ReadOptions{}, core.ErrInvalid, "the reader is nil"},
		{(*bytes.Reader)(nil), tensorfile.ReadOptions{}, core.ErrInvalid, "the reader is nil"},
		{strings.NewReader("PK\x03\x04 and more"), tensorfile.ReadOptions{}, core.ErrNotSupported, "ZIP archive"},
		{strings.NewReader("GGUF\x03\x00\x00\x00 and more"), tensorfile.ReadOptions{}, core.ErrNotSupported, "GGUF"},
		{strings.NewReader("some text"), tensorfile.ReadOptions{}, core.ErrLayout, "header length is"},
		{strings.NewReader("\x93NUMPY\x09\x09 and more"), tensorfile.ReadOptions{}, core.ErrVersion, "9.9"},
		{bytes.NewReader(npy("{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }")), tensorfile.ReadOptions{}, core.ErrNotSupported, "raw void"},
		{bytes.NewReader(withHeader(`[]`)), tensorfile.ReadOptions{}, core.ErrInvalid, "begin with '{'"},
		{bytes.NewReader(withHeader("{\"\xff\"}")), tensorfile.ReadOptions{}, core.ErrInvalid, "UTF-8"},
		{bytes.NewReader(withHeader(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 1, 2)), tensorfile.ReadOptions{}, core.ErrLayout, "gaps"},
		{bytes.NewReader(withHeader(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`)), tensorfile.ReadOptions{}, core.ErrInvalid, "twice"},
		{bytes.NewReader(withHeader(huge)), tensorfile.ReadOptions{}, core.ErrOutOfMemory, "MaxBytes allows 4294967296"},
		{bytes.NewReader(withHeader(huge)), tensorfile.ReadOptions{MaxBytes: math.MaxInt64}, core.ErrOutOfMemory, ""},
		{bytes.NewReader(withHeader(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 1, 2)), tensorfile.ReadOptions{MaxBytes: 1}, core.ErrOutOfMemory, "2 bytes"},
		{bytes.NewReader(npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", 1, 2, 3, 4)), tensorfile.ReadOptions{MaxBytes: 3}, core.ErrOutOfMemory, "4 bytes"},
		{strings.NewReader(""), tensorfile.ReadOptions{MaxBytes: -1}, core.ErrInvalid, "-1 bytes"},
		{strings.NewReader(""), tensorfile.ReadOptions{Budget: 1000}, core.ErrInvalid, "a budget of 1000 bytes"},
		{strings.NewReader(""), tensorfile.ReadOptions{Checksum: "md5"}, core.ErrInvalid, "md5"},
		{bytes.NewReader(withHeader(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 1, 2)), tensorfile.ReadOptions{Only: []string{"b"}}, core.ErrInvalid, `no tensor matches "b"`},
		{iotest.ErrReader(lost), tensorfile.ReadOptions{}, lost, ""},
		{io.MultiReader(bytes.NewReader(npy("{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", 1)), iotest.ErrReader(lost)), tensorfile.ReadOptions{}, lost, "1 of them"},
		{iotest.ErrReader(io.ErrUnexpectedEOF), tensorfile.ReadOptions{}, io.ErrUnexpectedEOF, "a message begins"},
		{liar(-1), tensorfile.ReadOptions{}, core.ErrInvalid, "more bytes than it was asked for"},
		{liar(math.MaxInt), tensorfile.ReadOptions{}, core.ErrInvalid, "more bytes than it was asked for"},
		{liar(0), tensorfile.ReadOptions{}, io.ErrNoProgress, ""},
	} {
		l, err := tensorfile.Read(t.Context(), c.r, openHost(t), c.options)
		if err == nil {
			_ = l.Close()
		}
		coretest.WantError(t, err, c.want, c.text)
		var typed *core.Error
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), c.text) || typed.Call != "Read" && c.text != "" {
			t.Errorf("%v: it does not come from Read, or does not say %q", err, c.text)
		}
	}
	if _, err := tensorfile.Read(t.Context(), strings.NewReader(""), nil, tensorfile.ReadOptions{}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("without a device: %v", err)
	}
}

// A header that says that it is long costs no memory before it arrives.
func TestReadAllocatesForWhatArrives(t *testing.T) {
	d := openHost(t)
	begin := []byte{0, 0xe1, 0xf5, 5, 0, 0, 0, 0} // 99,999,... bytes
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := tensorfile.Read(t.Context(), bytes.NewReader(append(begin, '{')), d, tensorfile.ReadOptions{})
	runtime.ReadMemStats(&after)
	coretest.WantError(t, err, io.ErrUnexpectedEOF, "")
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("%d bytes for a message of 9", used)
	}
}

func TestReadOntoADeviceThatFailsLeavesNothing(t *testing.T) {
	data := content(t, mixed(t, t.TempDir()))
	for _, opaque := range []bool{false, true} {
		for _, call := range []string{"Alloc", "NewStream", "Copy", "Record", "Synchronize", "HostView", "work"} {
			for n := 1; n < 20; n += n {
				b := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Opaque: opaque})
				found, err := b.Devices(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				d, err := b.Open(t.Context(), found[0].ID)
				if err != nil {
					t.Fatal(err)
				}
				fired := b.Fail(call, n, core.ErrDeviceLost)
				l, err := tensorfile.Read(t.Context(), bytes.NewReader(data), d, tensorfile.ReadOptions{Budget: 1 << 20})
				spared := slices.Contains([]string{"Alloc", "HostView", "Record"}, call) // another kind of buffer will do
				if failed := fired(); failed && err == nil && !spared || !failed && err != nil || err != nil && !errors.Is(err, core.ErrDeviceLost) {
					t.Errorf("%s, call %d: failed is %v, and the error %v", call, n, failed, err)
				}
				if err == nil {
					_ = l.Close()
				}
				if err := d.Close(); err != nil {
					t.Errorf("%s, call %d: left open: %v", call, n, err)
				}
			}
		}
	}
}
