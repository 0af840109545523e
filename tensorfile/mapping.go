package tensorfile

import (
	"errors"
	"io"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// memoryAlignment is that of memory which this package allocates, in bytes; it
// suits every element type.
const memoryAlignment = 256

// maxAllocation is the most bytes that allocate can be asked for.
const maxAllocation = math.MaxInt - memoryAlignment

var liveMappings = core.NewLiveCounter("tensorfile.mapping")

// mapping is memory that a file and its tensors share: a mapped file or pinned Go
// memory. It goes when the last reference is given back.
type mapping struct {
	data  []byte
	unmap func([]byte) error // nil for Go memory
	pin   runtime.Pinner
	refs  atomic.Int64
}

var _ core.Owner = (*mapping)(nil)

// pinned holds the mappings of Go memory that were not freed: the runtime ends a
// program that loses a Pinner, and a lost reference shall cost no more than its memory.
var pinned sync.Map

// newMapping makes a mapping with one reference. Unmap may be nil.
func newMapping(data []byte, unmap func([]byte) error) *mapping {
	m := &mapping{data: data, unmap: unmap}
	if unmap == nil && len(data) > 0 {
		m.pin.Pin(unsafe.SliceData(data))
		pinned.Store(m, nil)
	}
	m.refs.Store(1)
	liveMappings.Add(1)
	return m
}

// retain adds a reference. The caller holds one.
func (m *mapping) retain() { m.refs.Add(1) }

// Free gives one reference back; as an Owner, that of a tensor.
func (m *mapping) Free() {
	if m.refs.Add(-1) > 0 {
		return
	}
	if m.unmap != nil {
		_ = m.unmap(m.data) // it cannot fail for exactly what was mapped
	}
	m.pin.Unpin()
	pinned.Delete(m)
	m.data = nil
	liveMappings.Add(-1)
}

// mapFile maps a regular file, or reads it where the system cannot map it. The
// descriptor is closed either way. The caller owns the mapping.
func mapFile(path string) (*mapping, error) {
	at := fault{format: "tensorfile", call: "Open"}
	if f, err := FormatOf(path); err == nil {
		at.format = f
	}
	file, size, err := openRegular(path, at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // read only: nothing is lost
	if size == 0 {
		return newMapping(nil, nil), nil // an empty file cannot be mapped
	}
	data, err := mapBytes(file, size)
	if err == nil {
		return newMapping(data, unmapBytes), nil
	}
	if !errors.Is(err, core.ErrNotSupported) {
		return nil, at.errorf(because(core.ErrInvalid, err), "%s: mapping %d bytes failed", path, size)
	}
	if data, err = readWhole(file, size); err != nil {
		return nil, at.errorf(because(core.ErrInvalid, err), "%s: reading %d bytes failed", path, size)
	}
	return newMapping(data, nil), nil
}

// readWhole reads size bytes into memory of their own.
func readWhole(r io.Reader, size int) ([]byte, error) {
	data := allocate(size)
	_, err := io.ReadFull(r, data)
	return data, err
}

// openError is the system's reason why a file could not be opened. It is found as
// an ErrInvalid, too, but speaks of the file alone.
type openError struct{ error }

// Unwrap returns the sentinel and the reason.
func (e openError) Unwrap() []error { return []error{core.ErrInvalid, e.error} }

// openRegular opens a file that has a size. It looks before it opens, since to
// open a pipe blocks.
func openRegular(path string, at fault) (file *os.File, size int, err error) {
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() {
		if file, err = os.Open(path); err == nil {
			info, err = file.Stat()
		}
	}
	switch {
	case err != nil:
		err = at.errorf(openError{err}, "the file cannot be opened")
	case !info.Mode().IsRegular():
		err = at.errorf(core.ErrNotSupported, "%s is no regular file: save its bytes to one first; a program may pass them to Parse instead", path)
	case info.Size() > maxAllocation:
		err = at.errorf(core.ErrNotSupported, "%s has %d bytes, more than this machine addresses", path, info.Size())
	default:
		return file, int(info.Size()), nil
	}
	if file != nil {
		_ = file.Close()
	}
	return nil, 0, err
}

// allocate returns size bytes of Go memory at a multiple of memoryAlignment.
func allocate(size int) []byte {
	data := make([]byte, size+memoryAlignment-1)
	skip := -address(data) & (memoryAlignment - 1)
	return data[skip:][:size:size]
}

// address is where the first byte lies, 0 for no bytes.
func address(data []byte) uintptr {
	if len(data) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(data)))
}
