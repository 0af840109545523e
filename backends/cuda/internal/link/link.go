//go:build cuda && linux && cgo

package link

/*
#cgo LDFLAGS: -L${SRCDIR}/lib -ldl
#include "table.h"
static const struct dlx_cuda_entry *dlx_cuda_entry(int i) { return &dlx_cuda_entries[i]; }
static void *dlx_cuda_get(int i) { return *dlx_cuda_entries[i].at; }
static void dlx_cuda_set(int i, uintptr_t f) { *dlx_cuda_entries[i].at = f ? (void *)f : dlx_cuda_missing; }
*/
import "C"

import (
	"os"
	"sync"

	"github.com/dlx-go/dlx/backends/internal/dl"
)

// LibraryVariable is the environment variable that names a library to open instead of libcuda.so.1.
const LibraryVariable = "DLX_CUDA_LIBRARY"

// Load opens the driver's library and makes the jumps lead to its functions. It does so once: the library is never
// closed, since drivers crash when they are unloaded. Load fails with core.ErrNotSupported if there is no library,
// and with core.ErrVersion if the library is so old that it lacks a function that dlx cannot do without.
var Load = sync.OnceValue(func() error {
	names := []string{"libcuda.so.1"}
	if name := os.Getenv(LibraryVariable); name != "" {
		names = []string{name}
	}
	library, err := dl.Open("cuda", names...)
	if err != nil {
		return err
	}
	symbols, addresses := make([]dl.Symbol, C.dlx_cuda_count), make([]uintptr, C.dlx_cuda_count)
	for i := range symbols {
		name := C.GoString(C.dlx_cuda_entry(C.int(i)).name)
		since, needed := required[name]
		symbols[i] = dl.Symbol{Name: name, Since: since, Optional: !needed, Address: &addresses[i]}
	}
	if err := library.Resolve(symbols); err != nil {
		return err
	}
	for i, a := range addresses {
		C.dlx_cuda_set(C.int(i), C.uintptr_t(a))
	}
	return nil
})

// required has the functions that dlx cannot do without, and the version of CUDA that introduced each. One function
// stands for several that came with it. Other missing functions return CUDA_ERROR_NOT_SUPPORTED.
var required = map[string]string{
	"cuInit":                            "2.0",
	"cuDevicePrimaryCtxRetain":          "7.0",
	"cuMemAlloc_v2":                     "3.2",
	"cuMemFree_v2":                      "3.2",
	"cuMemcpyAsync":                     "4.0",
	"cuPointerGetAttributes":            "7.0",
	"cuStreamGetCtx":                    "9.2",
	"cuStreamIsCapturing":               "10.0",
	"cuThreadExchangeStreamCaptureMode": "10.1",
}

// Has reports whether the library that [Load] opened has the function, whose name is that in symbols.h.
func Has(name string) bool {
	for i := range int(C.dlx_cuda_count) {
		if C.GoString(C.dlx_cuda_entry(C.int(i)).name) == name {
			return C.dlx_cuda_get(C.int(i)) != C.dlx_cuda_missing
		}
	}
	return false
}
