//go:build rocm && linux && cgo

package driver

/*
#include <stddef.h>
#include <stdint.h>

// As in hsa_ext_amd.h, which is of another package than HIP's headers. A result of 0 is success.
typedef int (*dlx_export)(const void *address, size_t size, int *fd, uint64_t *offset);
typedef int (*dlx_close)(int fd);

static int dlx_portable(uintptr_t f, uintptr_t address, size_t size, int *fd, uint64_t *offset) {
	return ((dlx_export)f)((const void *)address, size, fd, offset);
}
static int dlx_portable_close(uintptr_t f, int fd) { return ((dlx_close)f)(fd); }
*/
import "C"

import (
	"sync"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/dl"
)

// portable has the functions of AMD's HSA runtime that export memory as a dma-buf, for libraries of HIP that have none.
var portable struct{ export, close uintptr }

// noPortableExport returns why the functions are not there, "" if they are.
var noPortableExport = sync.OnceValue(func() string {
	l, err := opened, error(nil) // a library for tests has everything
	if l.Lookup("hsa_amd_portable_export_dmabuf") == 0 {
		l, err = dl.Open("rocm", "libhsa-runtime64.so.1")
	}
	if err == nil {
		err = l.Resolve([]dl.Symbol{
			{Name: "hsa_amd_portable_export_dmabuf", Since: "1.9", Address: &portable.export},
			{Name: "hsa_amd_portable_close_dmabuf", Since: "1.9", Address: &portable.close},
		})
	}
	if err != nil {
		return "HIP has no hipMemGetHandleForAddressRange: " + err.Error()
	}
	return ""
})

// portableExport exports memory as a dma-buf of its own, which begins where the memory does.
func portableExport(m cudalike.Mapped) (int, cudalike.Status) {
	const call = "hsa_amd_portable_export_dmabuf"
	if noPortableExport() != "" {
		return -1, unsupported(call)
	}
	var fd C.int = -1
	var offset C.uint64_t
	r := C.dlx_portable(C.uintptr_t(portable.export), C.uintptr_t(m.Address), C.size_t(m.Size), &fd, &offset)
	switch {
	case r != 0:
		return -1, status(call, Unknown)
	case offset != 0: // the handle has no room for it
		C.dlx_portable_close(C.uintptr_t(portable.close), fd)
		return -1, unsupported(call)
	}
	return int(fd), cudalike.Status{}
}
