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
	"github.com/dlx-go/dlx/internal/hostmem"
	"github.com/dlx-go/dlx/internal/live"
)

// memoryAlignment is the alignment in bytes of memory that this package allocates. It suits
// every element type.
const memoryAlignment = 256

// maxAllocation is the largest size that may be passed to allocate.
const maxAllocation = math.MaxInt - memoryAlignment

var liveMappings = live.NewCounter("tensorfile.mapping")

// mapping is memory that a file and its tensors share: a mapped file or pinned Go memory. It
// counts its references, and is unmapped or unpinned when the last one is released.
type mapping struct {
	data  []byte
	unmap func([]byte) error // nil for Go memory
	pin   runtime.Pinner
	refs  atomic.Int64
}

var _ core.Owner = (*mapping)(nil)

// pinned holds every mapping of Go memory that is not freed. Without it, a tensor that is
// never closed could end the program: the runtime panics when it collects a Pinner that
// still pins memory.
var pinned sync.Map

// newMapping returns a mapping with one reference. unmap is nil for Go memory.
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

// Free releases one reference. A tensor calls it to release its own.
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

// mapFile maps a regular file, or reads it if the system cannot map it. The file is closed
// afterwards. The caller owns the reference of the mapping.
func mapFile(path string) (*mapping, error) {
	at := fault{format: "tensorfile", call: "Open"}
	if f, err := FormatOf(path); err == nil {
		at.format = f
	}
	file, size, err := openRegular(path, at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the file was only read: an error does not matter
	return mapOpened(file, size, path, at)
}

// mapOpened is mapFile for an open file, which the caller closes.
func mapOpened(file *os.File, size int, path string, at fault) (*mapping, error) {
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
		if !errors.Is(err, core.ErrOutOfMemory) {
			err = because(core.ErrInvalid, err)
		}
		return nil, at.errorf(err, "%s: reading %d bytes failed", path, size)
	}
	return newMapping(data, nil), nil
}

// readWhole reads size bytes into new memory.
func readWhole(r io.Reader, size int) ([]byte, error) {
	data, err := allocate(size)
	if err != nil {
		return nil, err
	}
	_, err = io.ReadFull(r, data)
	return data, err
}

// openError is the system's error for a file that cannot be opened. It also wraps ErrInvalid,
// but its text is only that of the system's error.
type openError struct{ error }

// Unwrap returns ErrInvalid and the system's error.
func (e openError) Unwrap() []error { return []error{core.ErrInvalid, e.error} }

// openRegular opens a regular file and returns its size. It checks the kind of file first,
// because opening a pipe would block.
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
		err = at.errorf(core.ErrNotSupported, "%s is not a regular file: save its bytes to one first; a program can pass them to Parse instead", path)
	case info.Size() > maxAllocation:
		err = at.errorf(core.ErrNotSupported, "%s has %d bytes, more than this machine can address", path, info.Size())
	default:
		return file, int(info.Size()), nil
	}
	if file != nil {
		_ = file.Close()
	}
	return nil, 0, err
}

// allocate returns size bytes of Go memory at a multiple of memoryAlignment. It returns
// ErrOutOfMemory if the system does not have as many.
func allocate(size int) ([]byte, error) {
	if err := hostmem.Check(int64(size) + memoryAlignment - 1); err != nil {
		return nil, because(core.ErrOutOfMemory, err)
	}
	data := make([]byte, size+memoryAlignment-1)
	skip := -address(data) & (memoryAlignment - 1)
	return data[skip:][:size:size], nil
}

// address returns the address of the first byte, 0 if there are no bytes.
func address(data []byte) uintptr {
	if len(data) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(data)))
}
