//go:build cuda && linux && cgo

package cufile

/*
#include <errno.h>
#include "layout.h"

static dlx_cufile_error dlx_cufile_open(uintptr_t f) {
	return ((dlx_cufile_error (*)(void))f)();
}

static dlx_cufile_error dlx_cufile_register(uintptr_t f, int fd, uintptr_t *handle) {
	dlx_cufile_descr d = {.type = dlx_cufile_opaque_fd, .handle = {.other = NULL}};
	d.handle.fd = fd;
	void *h = NULL;
	dlx_cufile_error e = ((dlx_cufile_error (*)(void **, dlx_cufile_descr *))f)(&h, &d);
	*handle = (uintptr_t)h;
	return e;
}

static void dlx_cufile_deregister(uintptr_t f, uintptr_t handle) {
	((void (*)(void *))f)((void *)handle);
}

static int64_t dlx_cufile_read(uintptr_t f, uintptr_t handle, uintptr_t base, size_t n, int64_t from, int64_t to, int *number) {
	errno = 0;
	ssize_t got = ((ssize_t (*)(void *, void *, size_t, off_t, off_t))f)((void *)handle, (void *)base, n, (off_t)from, (off_t)to);
	*number = errno;
	return got;
}
*/
import "C"

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

const backend = "cuda"

var liveFiles = live.NewCounter("cuFile file")

// The codes of CUfileOpError that this package tells apart.
const (
	baseError          = 5000
	notInitialized     = baseError + 1  // nvidia-fs is not loaded
	versionMismatch    = baseError + 4  // of nvidia-fs
	platformUnfit      = baseError + 7  // CU_FILE_PLATFORM_NOT_SUPPORTED
	fileUnfit          = baseError + 8  // CU_FILE_IO_NOT_SUPPORTED
	deviceUnfit        = baseError + 9  // CU_FILE_DEVICE_NOT_SUPPORTED
	cudaDriver         = baseError + 11 // the CUresult says more
	fileTypeUnfit      = baseError + 18 // CU_FILE_INVALID_FILE_TYPE
	alreadyOpen        = baseError + 26 // CU_FILE_DRIVER_ALREADY_OPEN, by other code of the process
	setupFailed        = baseError + 33 // CU_FILE_NVFS_SETUP_ERROR: libcufile 1.14.1 without a CUDA driver answers this
	disabledByItsSetup = baseError + 34 // CU_FILE_IO_DISABLED
)

// Library is an open cuFile. It is safe for concurrent use, and is kept for the life of the process.
type Library struct {
	library                              *dl.Library
	open, register, deregister, readFile uintptr
}

// LibraryVariable is the environment variable that names a library to open instead of libcufile.so.0.
const LibraryVariable = "DLX_CUFILE_LIBRARY"

// Load opens the library once, and keeps what [Open] returned. It must be called while a context of CUDA is current.
var Load = sync.OnceValues(func() (*Library, error) {
	if name := os.Getenv(LibraryVariable); name != "" {
		return Open(name)
	}
	return Open()
})

// statistics is the file by which the module nvidia-fs of the kernel shows that it is loaded.
var statistics = "/proc/driver/nvidia-fs/stats"

// Check returns ErrNotSupported unless the module nvidia-fs of the kernel is loaded. It does not open the library, which
// prints to the standard error output if it does not find the module, and may then read through host memory. Newer versions
// can do without the module on some systems, which Check cannot tell.
func Check() error {
	if _, err := os.Stat(statistics); err != nil {
		return core.Errorf(core.ErrNotSupported, backend, "CanReadFiles", "the kernel has no module nvidia-fs of GPUDirect Storage: %v", err)
	}
	return nil
}

// Open opens the library and its driver. names are tried in order; without names it is the system's libcufile.so.0. It
// returns ErrNotSupported if there is no library, or it does not work here, and ErrVersion if it lacks a function.
func Open(names ...string) (*Library, error) {
	if len(names) == 0 {
		names = []string{"libcufile.so.0"}
	}
	library, err := dl.Open(backend, names...)
	if err != nil {
		return nil, err
	}
	l := &Library{library: library}
	err = library.Resolve([]dl.Symbol{
		{Name: "cuFileDriverOpen", Address: &l.open},
		{Name: "cuFileHandleRegister", Address: &l.register},
		{Name: "cuFileHandleDeregister", Address: &l.deregister},
		{Name: "cuFileRead", Address: &l.readFile},
	})
	if err != nil {
		_ = library.Close()
		return nil, err
	}
	defer dl.KeepHandlers()()
	if e := C.dlx_cufile_open(C.uintptr_t(l.open)); e.err != alreadyOpen {
		// The library stays loaded: it may have started threads.
		if err := failed("cuFileDriverOpen", int64(e.err), int32(e.cuda)); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// File is a file that cuFile reads. It is safe for concurrent use.
type File struct {
	l *Library

	mu     sync.RWMutex // held to read while the library reads
	handle C.uintptr_t  // 0 once it is closed
}

// Register prepares an open file for Read. The caller keeps the descriptor open until Close of the File, and closes both.
// It returns ErrNotSupported if cuFile does not read files of that kind or file system.
func (l *Library) Register(fd int) (*File, error) {
	var handle C.uintptr_t
	e := C.dlx_cufile_register(C.uintptr_t(l.register), C.int(fd), &handle)
	if err := failed("cuFileHandleRegister", int64(e.err), int32(e.cuda)); err != nil {
		return nil, err
	}
	liveFiles.Add(1)
	return &File{l: l, handle: handle}, nil
}

// Read reads n bytes of the file at from to the address base+to of the device whose context is current on this thread,
// where base is the begin of an allocation. It waits until they are there, and is not ordered with streams. A read that
// returns fewer bytes is continued. It returns ErrInvalid and io.ErrUnexpectedEOF if the file ends before, and ErrClosed
// after Close. After an error the memory has any part of the bytes.
func (f *File) Read(base uintptr, to, from, n int64) error {
	const call = "cuFileRead"
	if to < 0 || from < 0 || n < 0 {
		return core.Errorf(core.ErrInvalid, backend, call, "%d bytes at %d of the file to %d of the memory: a negative number", n, from, to)
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.handle == 0 {
		return core.Errorf(core.ErrClosed, backend, call, "the file was closed")
	}
	for done := int64(0); done < n; {
		var number C.int
		got := int64(C.dlx_cufile_read(C.uintptr_t(f.l.readFile), f.handle, C.uintptr_t(base), C.size_t(n-done), C.int64_t(from+done), C.int64_t(to+done), &number))
		switch {
		case got == -1:
			err := core.Errorf(fmt.Errorf("%w: %w", core.ErrInvalid, syscall.Errno(number)), backend, call, "%d bytes at %d of the file", n-done, from+done)
			err.Code = int64(number)
			return err
		case got < 0:
			return failed(call, -got, 0)
		case got == 0:
			return core.Errorf(fmt.Errorf("%w: %w", core.ErrInvalid, io.ErrUnexpectedEOF), backend, call, "the file ends at byte %d, %d more were asked for", from+done, n-done)
		case got > n-done:
			return core.Errorf(core.ErrInvalid, backend, call, "it read %d bytes, %d were asked for", got, n-done)
		}
		done += got
	}
	return nil
}

// Close waits for reads that run, and has cuFile forget the file. It leaves the descriptor open. A second Close does
// nothing.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.handle != 0 {
		C.dlx_cufile_deregister(C.uintptr_t(f.l.deregister), f.handle)
		f.handle = 0
		liveFiles.Add(-1)
	}
	return nil
}

// failed returns the error of a call by its two codes, or nil.
func failed(call string, code int64, cuda int32) error {
	sentinel, detail := core.ErrInvalid, "cuFile refuses the call"
	switch code {
	case 0:
		return nil
	case notInitialized, versionMismatch, platformUnfit, fileUnfit, deviceUnfit, fileTypeUnfit, setupFailed, disabledByItsSetup:
		sentinel, detail = core.ErrNotSupported, "GPUDirect Storage does not work for this device, file or system"
	}
	err := core.Errorf(sentinel, backend, call, "%s", detail)
	if code == cudaDriver {
		err = core.Errorf(sentinel, backend, call, "the CUDA driver answered CUresult %d", cuda)
	}
	err.Code = code
	return err
}
