package core

import (
	"context"
	"os"
)

// FileReader reads files straight into memory of the device, past the memory of the host.
// NVIDIA calls that GPUDirect Storage. No capability stands for the interface: whether a
// device reads a file depends on a library, on the file system and on the storage, and only
// OpenFile finds that out.
//
//	reader, ok := core.As[core.FileReader](d)
//	...
//	f, err := reader.OpenFile(ctx, file)
//	err = f.ReadAt(ctx, dst, offset)
//	err = f.Close()
type FileReader interface {
	// CanReadFiles returns nil if the system is set up for reads past the memory of the
	// host. It looks at the system, and opens no library. Otherwise it returns
	// ErrNotSupported with the reason. OpenFile may succeed then nevertheless: some libraries
	// also read through memory of the host, which is slower than other ways.
	CanReadFiles() error
	// OpenFile prepares a file for reads. It opens the library of the device if that is not
	// open yet, which may print to the standard error output and start threads. If file was
	// opened to be read past the page cache (O_DIRECT), it is, at any position. The caller
	// keeps file open until the result is closed, and closes both, the result first. OpenFile
	// returns ErrInvalid if file is nil, ErrNotSupported if the library, the file system or
	// the device cannot read the file, ErrClosed if the device was closed, ErrDeviceLost if
	// it is lost, and ctx's error.
	OpenFile(ctx context.Context, file *os.File) (DeviceFile, error)
}

// DeviceFile is a file that a device reads. It is safe for concurrent use. A device cannot be
// closed while its files are open.
type DeviceFile interface {
	// ReadAt fills dst with the bytes of the file at offset. It returns when the bytes are in
	// the memory of the device, where all work that is enqueued later finds them.
	//
	// ReadAt first waits for all work on the memory of dst that was enqueued before, and
	// keeps the memory alive. It is not ordered with what is called at the same time: other
	// calls of ReadAt for other bytes of the memory run beside it, and nothing may use the
	// bytes of dst before it returns. If ctx ends while ReadAt waits, it returns ctx's error.
	// A read that has begun goes on to its end.
	//
	// ReadAt returns ErrInvalid and io.ErrUnexpectedEOF if the
	// file ends before, ErrInvalid if it cannot be read, ErrNotSupported if the device cannot
	// read it, ErrDeviceLost if the device is lost, and ErrClosed after Close. If it fails
	// during the read, the bytes of dst are undefined.
	ReadAt(ctx context.Context, dst *Tensor, offset int64) error
	// Close waits for reads and releases the file, which stays open for the caller. A second
	// Close does nothing.
	Close() error
}
