//go:build (opencl || oneapi) && linux && cgo

package driver

/*
#include "table.h"

struct dlx_cl_table dlx_cl;

struct dlx_cl_entry {
	const char *name, *since;
	int optional;
};

static const struct dlx_cl_entry dlx_cl_entries[] = {
#define DLX_CL_ENTRY(name, since, optional, handle) {#name, since, optional},
	DLX_CL_FUNCTIONS(DLX_CL_ENTRY)
};

enum { dlx_cl_count = sizeof dlx_cl_entries / sizeof *dlx_cl_entries };

static const struct dlx_cl_entry *dlx_cl_entry(int i) { return &dlx_cl_entries[i]; }

static uintptr_t *dlx_cl_slots(void) { return (uintptr_t *)&dlx_cl; }
*/
import "C"

import (
	"os"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/dl"
)

// LibraryVariable names an environment variable, whose value is opened instead of the system's libOpenCL.
const LibraryVariable = "DLX_OPENCL_LIBRARY"

// Load opens libOpenCL and fills the table, once for the life of the process, since drivers do not survive
// being unloaded. It fails with core.ErrNotSupported if there is no library, and with core.ErrVersion if it
// is older than OpenCL 1.2. Load must have succeeded before any other function of this package is called.
var Load = sync.OnceValue(func() error {
	names := []string{"libOpenCL.so.1", "libOpenCL.so"}
	if name := os.Getenv(LibraryVariable); name != "" {
		names = []string{name}
	}
	library, err := dl.Open("opencl", names...)
	if err != nil {
		return err
	}
	symbols, slots := make([]dl.Symbol, C.dlx_cl_count), Table()
	for i := range symbols {
		e := C.dlx_cl_entry(C.int(i))
		symbols[i] = dl.Symbol{Name: C.GoString(e.name), Since: C.GoString(e.since), Optional: e.optional != 0, Address: &slots[i]}
	}
	return library.Resolve(symbols)
})

// Table holds the addresses of the functions, in the order of table.h. Tests replace them to make calls fail.
func Table() []uintptr {
	return unsafe.Slice((*uintptr)(unsafe.Pointer(C.dlx_cl_slots())), int(C.dlx_cl_count))
}

// HasSVM reports whether the library knows shared virtual memory, which came with OpenCL 2.0.
func HasSVM() bool { return C.dlx_cl.clSVMAlloc != nil && C.dlx_cl.clSVMFree != nil }

// HasProperties reports whether the library has clCreateBufferWithProperties, which came with OpenCL 3.0.
func HasProperties() bool { return C.dlx_cl.clCreateBufferWithProperties != nil }
