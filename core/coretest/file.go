package coretest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

var liveFiles = live.NewCounter("coretest.File")

// file is a file that a device reads.
type file struct {
	device *Device

	mu sync.RWMutex // held to read during a read
	of *os.File     // nil once it is closed
}

var (
	_ core.FileReader = (*Device)(nil)
	_ core.DeviceFile = (*file)(nil)
)

// CanReadFiles returns nil with Options.Files.
func (d *Device) CanReadFiles() error {
	if !d.backend.options.Files {
		return d.backend.errorf(core.ErrNotSupported, "CanReadFiles", "the test gave no Options.Files")
	}
	return nil
}

// OpenFile opens a file if CanReadFiles returns nil.
func (d *Device) OpenFile(ctx context.Context, of *os.File) (core.DeviceFile, error) {
	const call = "OpenFile"
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := d.CanReadFiles(); err != nil {
		return nil, err
	}
	if err := d.call(call); err != nil {
		return nil, err
	}
	if of == nil {
		return nil, d.backend.errorf(core.ErrInvalid, call, "the file is nil")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, d.backend.errorf(core.ErrClosed, call, "the device was closed")
	}
	d.files++
	liveFiles.Add(1)
	return &file{device: d, of: of}, nil
}

// ReadAt reads in the call, whatever else the scheduler has to run.
func (f *file) ReadAt(ctx context.Context, dst *core.Tensor, offset int64) error {
	const call = "ReadAt"
	d := f.device
	if err := backendkit.CheckFileRead(d.id, dst, offset); err != nil {
		return err
	}
	b, err := dst.Buffer()
	if err == nil {
		err = b.Retain()
	}
	if err != nil {
		return err
	}
	defer b.Release()
	if err := dst.WaitIdle(ctx); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.of == nil {
		return d.backend.errorf(core.ErrClosed, call, "the file was closed")
	}
	if err := d.call(call); err != nil || dst.IsEmpty() {
		return err
	}
	to, err := d.backend.locate(dst)
	if err != nil {
		return err
	}
	size := dst.NumBytes()
	if err := readBlocks(f.of, unsafe.Slice(at(to, 0), size), offset); err != nil {
		return d.backend.errorf(fmt.Errorf("%w: %w", core.ErrInvalid, err), call, "%d bytes at %d of the file", size, offset)
	}
	return nil
}

// readBlocks reads whole pages into memory that begins at a page, as O_DIRECT needs it.
func readBlocks(of *os.File, dst []byte, offset int64) error {
	low := offset &^ (page - 1)
	before := int(offset - low)
	size := (before + len(dst) + page - 1) &^ (page - 1)
	room := make([]byte, size+page)
	room = room[-addressOf(room)&(page-1):][:size]
	n, err := of.ReadAt(room, low)
	if n >= before+len(dst) {
		copy(dst, room[before:])
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Close releases the file.
func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of != nil {
		f.of = nil
		f.device.forget(&f.device.files)
		liveFiles.Add(-1)
	}
	return nil
}
