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

// LibraryVariable names in the environment another library than the driver's libcuda.so.1.
const LibraryVariable = "DLX_CUDA_LIBRARY"

// Load opens the driver's library and has the jumps lead to its functions, once for
// the life of the process: drivers do not survive being unloaded. It fails with
// core.ErrNotSupported if there is no library, and core.ErrVersion if it is too old
// to have the functions that no program does without.
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
		since, required := oldest[name]
		symbols[i] = dl.Symbol{Name: name, Since: since, Optional: !required, Address: &addresses[i]}
	}
	if err := library.Resolve(symbols); err != nil {
		return err
	}
	for i, a := range addresses {
		C.dlx_cuda_set(C.int(i), C.uintptr_t(a))
	}
	return nil
})

// oldest has the functions that dlx does not do without, and the version of CUDA that brought the
// youngest of each family; what else is missing answers CUDA_ERROR_NOT_SUPPORTED.
var oldest = map[string]string{
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

// Has reports whether the library that [Load] opened has a function, by the name in symbols.h.
func Has(name string) bool {
	for i := range int(C.dlx_cuda_count) {
		if C.GoString(C.dlx_cuda_entry(C.int(i)).name) == name {
			return C.dlx_cuda_get(C.int(i)) != C.dlx_cuda_missing
		}
	}
	return false
}
