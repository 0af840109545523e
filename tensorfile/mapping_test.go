package tensorfile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

const realFile = "../testdata/digits.safetensors"

// TestTensorsAreTheMappingItself proves that no element is copied.
func TestTensorsAreTheMappingItself(t *testing.T) {
	f, err := Open(realFile, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	mapped := f.share.m.data
	for _, info := range f.Tensors() {
		if !info.InPlace || info.Bytes == 0 {
			continue
		}
		x, err := f.Tensor(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := x.Address()
		if want := address(mapped[info.Offset:]); err != nil || p != want {
			t.Errorf("%s lies at %#x, want %#x, which is byte %d of the mapping; %v", info.Name, p, want, info.Offset, err)
		}
		b, err := x.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		if memory := b.Memory(); memory.Handle != address(mapped) || memory.Size != int64(len(mapped)) || memory.Offset != 0 || x.Offset() != info.Offset {
			t.Errorf("%s has memory %+v and offset %d; want the whole mapping, %d bytes at %#x, and offset %d", info.Name, memory, x.Offset(), len(mapped), address(mapped), info.Offset)
		}
		if !b.Memory().ReadOnly {
			t.Errorf("%s has memory that is not marked as read-only", info.Name)
		}
		_ = x.Close()
	}
}

// TestCopiesOfAFileAreNotMarked is about memory that a device can map: only the pages of a
// mapped file cannot be written.
func TestCopiesOfAFileAreNotMarked(t *testing.T) {
	f, err := Open("../testdata/digits_compressed.npz", OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	x, err := f.Tensor("mean")
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	if b.Memory().ReadOnly || !x.ReadOnly() {
		t.Errorf("the memory is marked: %v, the tensor is read-only: %v", b.Memory().ReadOnly, x.ReadOnly())
	}
}

// TestLostMappingCostsItsMemoryOnly is about Go memory: the runtime ends a program
// that loses a pinned slice.
func TestLostMappingCostsItsMemoryOnly(t *testing.T) {
	before := core.Live()["tensorfile.mapping"]
	func() { newMapping(make([]byte, 100), nil) }()
	for range 10 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if n := core.Live()["tensorfile.mapping"] - before; n != 1 {
		t.Errorf("%d mappings more are counted, want the lost one", n)
	}
	for m := range pinned.Range { // what is not lost was freed by the tests before
		m.(*mapping).Free()
	}
}

// TestMappingIsTheFile proves that a mapped file is not a copy of it.
func TestMappingIsTheFile(t *testing.T) {
	if _, err := mapBytes(nil, 0); errors.Is(err, core.ErrNotSupported) {
		t.Skip("files are not mapped on " + runtime.GOOS)
	}
	path := filepath.Join(t.TempDir(), "x.npy")
	if err := os.WriteFile(path, []byte(npyHeaderText("|u1", false, []int64{1})+"a"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := mapFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	last := len(m.data) - 1
	if _, err := file.WriteAt([]byte("b"), int64(last)); err != nil {
		t.Fatal(err)
	}
	if m.data[last] != 'b' {
		t.Errorf("the mapping holds %q after the file was changed", m.data[last])
	}
}

func TestMappingCannotBeWrittenTo(t *testing.T) {
	if _, err := mapBytes(nil, 0); errors.Is(err, core.ErrNotSupported) {
		t.Skip("files are not mapped on " + runtime.GOOS)
	}
	m, err := mapFile(realFile)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() == nil {
			t.Error("a write to the mapping went through")
		}
	}()
	m.data[0] = 0
}

// TestFileThatCannotBeMappedIsRead is about what other systems always do.
func TestFileThatCannotBeMappedIsRead(t *testing.T) {
	want, err := os.ReadFile(realFile)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readWhole(bytes.NewReader(want), len(want))
	if err != nil || !bytes.Equal(got, want) || address(got)%memoryAlignment != 0 {
		t.Errorf("%d bytes at %#x, %v", len(got), address(got), err)
	}
	if _, err := readWhole(bytes.NewReader(want), len(want)+1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that shrank: %v", err)
	}
}

func TestParseTakesMemoryOutsideOfTheHeap(t *testing.T) {
	m, err := mapFile(realFile)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	f, err := Parse(m.data, realFile, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestAllocateIsAligned(t *testing.T) {
	for _, size := range []int{0, 1, 7, 255, 256, 100_000} {
		data, err := allocate(size)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) != size || cap(data) != size || address(data)%memoryAlignment != 0 {
			t.Errorf("%d bytes: length %d, capacity %d, address %#x", size, len(data), cap(data), address(data))
		}
	}
}

func TestByteOrders(t *testing.T) {
	at := fault{format: NPY, call: "Open"}
	for _, test := range []struct {
		descr  string
		native byte
		want   error
	}{
		{"<f4", '<', nil},
		{">f4", '>', nil},
		{">f4", '<', nil},
		{"<f4", '>', nil},
		{"|u1", '>', nil},
		{"<u1", '>', nil},
	} {
		dtype, swapped, err := parseDescr(test.descr, test.native, nil, at)
		if !errors.Is(err, test.want) {
			t.Errorf("%s on a %c machine: %v, want %v", test.descr, test.native, err, test.want)
		}
		if err != nil {
			continue
		}
		if swapped != (dtype.Bits > 8 && test.descr[0] != test.native) {
			t.Errorf("%s on a %c machine: swapped is %v", test.descr, test.native, swapped)
		}
		if back, err := npyDescr(dtype, test.native, at); err != nil || back[1:] != test.descr[1:] || dtype.Bits > 8 && back[0] != test.native {
			t.Errorf("%s on a %c machine is written %q, %v", test.descr, test.native, back, err)
		}
	}
	if err := checkOrder(core.TypeFloat16, '>', at); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("safetensors on a big-endian machine: %v", err)
	}
	if err := checkOrder(core.TypeFloat8E5M2, '>', at); err != nil {
		t.Errorf("bytes of safetensors on a big-endian machine: %v", err)
	}
}
