//go:build rocm && linux && cgo

package driver

/*
#include <stddef.h>
#include <stdint.h>

// As in hsa_ext_amd.h, which is of another package than HIP's headers. A result of 0 is success.
typedef int (*dlx_export)(const void *address, size_t size, int *fd, uint64_t *offset);
typedef int (*dlx_close)(int fd);
typedef int (*dlx_info)(int which, void *value);
enum { DLX_DMA_BUF_SUPPORTED = 0x204 }; // HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED: a bool

static int dlx_portable(uintptr_t f, uintptr_t address, size_t size, int *fd, uint64_t *offset) {
	return ((dlx_export)f)((const void *)address, size, fd, offset);
}
static int dlx_hsa_info(uintptr_t f, char *out) { return ((dlx_info)f)(DLX_DMA_BUF_SUPPORTED, out); }
static int dlx_portable_close(uintptr_t f, int fd) { return ((dlx_close)f)(fd); }
*/
import "C"

import (
	"sync"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/dl"
)

// portable has functions of AMD's HSA runtime, over which HIP is built. They are 0 where it lacks them.
var portable struct{ query, export, close uintptr }

// noDMABufs returns why memory cannot be exported as dma-bufs, "" if it can.
var noDMABufs = sync.OnceValue(func() string {
	l, err := opened, error(nil) // a library for tests has these functions itself
	if l.Lookup("hsa_amd_portable_export_dmabuf") == 0 {
		l, err = dl.Open("rocm", "libhsa-runtime64.so.1")
	}
	if err == nil {
		err = l.Resolve([]dl.Symbol{
			{Name: "hsa_system_get_info", Optional: true, Address: &portable.query},
			{Name: "hsa_amd_portable_export_dmabuf", Optional: true, Address: &portable.export},
			{Name: "hsa_amd_portable_close_dmabuf", Optional: true, Address: &portable.close},
		})
	}
	var supported C.char
	switch own := has("hipMemGetHandleForAddressRange"); {
	case err == nil && portable.query != 0 && C.dlx_hsa_info(C.uintptr_t(portable.query), &supported) == 0 && supported == 0:
		return "HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED is false"
	case own:
		return ""
	case err != nil:
		return "the library has no hipMemGetHandleForAddressRange: " + err.Error()
	case portable.export == 0 || portable.close == 0:
		return "the libraries have neither hipMemGetHandleForAddressRange nor hsa_amd_portable_export_dmabuf"
	}
	return ""
})

// portableExport exports memory as a dma-buf of its own, which begins where the memory does.
func portableExport(m cudalike.Mapped) (int, cudalike.Status) {
	const call = "hsa_amd_portable_export_dmabuf"
	if noDMABufs() != "" {
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
