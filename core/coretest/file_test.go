package coretest

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// openReader opens a device that reads files and a file of 1000 bytes.
func openReader(t *testing.T, o Options) (*Backend, core.Device, core.FileReader, *os.File) {
	t.Helper()
	o.Files = true
	b := NewBackend(o)
	d := open(t, b, 0)
	reader, ok := core.As[core.FileReader](d)
	if !ok || reader.CanReadFiles() != nil {
		t.Fatal("the device does not read files")
	}
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, Pattern(1000, 1), 0o600))
	file, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, file.Close()) })
	return b, d, reader, file
}

func TestADeviceReadsFiles(t *testing.T) {
	for _, o := range []Options{{}, {Opaque: true}} {
		b, d, reader, file := openReader(t, o)
		f, err := reader.OpenFile(t.Context(), file)
		must(t, err)
		WantError(t, d.Close(), core.ErrInvalid, "Close with an open file")
		x := Row(t, d, 700, core.AllocOptions{})
		part := Keep(t)(x.Slice(0, 100, 600, 1))
		must(t, f.ReadAt(t.Context(), part, 300))
		address, err := b.locate(part)
		must(t, err)
		for i, want := range Pattern(1000, 1)[300:800] {
			if got := *at(address, int64(i)); got != want {
				t.Fatalf("byte %d is %d, want %d", i, got, want)
			}
		}
		WantError(t, f.ReadAt(t.Context(), part, 501), io.ErrUnexpectedEOF, "a read past the end")
		WantError(t, f.ReadAt(t.Context(), nil, 0), core.ErrInvalid, "a read into nothing")
		WantError(t, f.ReadAt(t.Context(), part, -1), core.ErrInvalid, "a read before the begin")
		WantError(t, f.ReadAt(t.Context(), Keep(t)(x.Slice(0, 0, 100, 2)), 0), core.ErrLayout, "a read of every second byte")
		WantError(t, f.ReadAt(t.Context(), Keep(t)(core.FromSlice(make([]byte, 9))), 0), core.ErrDevice, "a read into host memory")
		b.Fail("ReadAt", 1, core.ErrNotSupported)
		WantError(t, f.ReadAt(t.Context(), part, 0), core.ErrNotSupported, "a read that fails")
		must(t, f.Close(), f.Close())
		WantError(t, f.ReadAt(t.Context(), part, 0), core.ErrClosed, "a read after Close")
		WantError(t, errOf(reader.OpenFile(t.Context(), nil)), core.ErrInvalid, "no file")
		_ = x.Close()
	}
}

func TestADeviceReadsNoFilesUnlessAsked(t *testing.T) {
	d := OpenSimulated(t, Options{})
	reader, _ := core.As[core.FileReader](d)
	WantError(t, reader.CanReadFiles(), core.ErrNotSupported, "CanReadFiles")
	WantError(t, errOf(reader.OpenFile(t.Context(), os.Stdin)), core.ErrNotSupported, "OpenFile")
}
