package devicebase_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// fileMapping maps a file of two pages for reading, and one page for writing too.
func fileMapping(t *testing.T) (readOnly, writable []byte) {
	t.Helper()
	page := os.Getpagesize()
	name := filepath.Join(t.TempDir(), "mapped")
	if err := os.WriteFile(name, make([]byte, 2*page), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	mapped := func(size, access int) []byte {
		b, err := syscall.Mmap(int(f.Fd()), 0, size, access, syscall.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Munmap(b) })
		return b
	}
	return mapped(2*page, syscall.PROT_READ), mapped(page, syscall.PROT_READ|syscall.PROT_WRITE)
}

func TestMapFindsOutWhatTheHostCannotWrite(t *testing.T) {
	d := open(t)
	d.Info.Capabilities |= core.CapMapHost
	readOnly, writable := fileMapping(t)
	for _, c := range []struct {
		name    string
		data    []byte
		flags   core.Flags // of the tensor
		marked  bool
		maps    bool // memory that the host cannot write
		want    error
		becomes bool // ReadOnly
	}{
		{"writable pages", writable, core.FlagReadOnly, false, false, nil, false},
		{"Go memory", make([]byte, 100), core.FlagReadOnly, false, false, nil, false},
		{"no bytes of read-only pages", readOnly[:0], core.FlagReadOnly, false, false, nil, false},
		{"read-only pages", readOnly, core.FlagReadOnly, false, false, core.ErrReadOnly, false},
		{"a byte of them", readOnly[77:78], core.FlagReadOnly, false, false, core.ErrReadOnly, false},
		{"their last byte", readOnly[len(readOnly)-1:], core.FlagReadOnly, false, true, nil, true},
		{"pages that are said to be writable", readOnly, 0, false, false, nil, false}, // the driver decides
		{"memory that is marked", writable, 0, true, false, core.ErrReadOnly, false},
		{"read-only pages, of a driver that maps them", readOnly, 0, true, true, nil, true},
	} {
		x, err := core.Wrap(core.Memory{
			ID: core.CPU, Handle: uintptr(unsafe.Pointer(unsafe.SliceData(c.data))), Size: int64(len(c.data)), ReadOnly: c.marked,
		}, core.Spec{DType: core.TypeUint8, Shape: []int64{int64(len(c.data))}, Flags: c.flags})
		if err != nil {
			t.Fatal(err)
		}
		b, err := x.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		can := func(m core.Memory) error { return d.CheckMap(m, c.maps) }
		m, err := d.Map(t.Context(), b, can, func(m core.Memory) (core.Memory, error) {
			return core.Memory{ID: d.ID(), Size: m.Size, Owner: core.FreeFunc(b.Release)}, nil
		})
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if m.ReadOnly != c.becomes || err == nil && m.OriginType() != core.DeviceCPU {
			t.Errorf("%s: mapped as %+v", c.name, m)
		}
		m.Free()
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}
