//go:build rocm && linux && cgo

package driver

/*
#cgo CFLAGS: -D__HIP_PLATFORM_AMD__
#include "shim.h"

static const struct dlx_entry *dlx_entry(int compiler, int i) { return &(compiler ? dlx_hiprtc_entries : dlx_hip_entries)[i]; }
static void dlx_set(int compiler, int i, uintptr_t f) { *dlx_entry(compiler, i)->at = f ? (void *)f : dlx_hip_missing; }
static int dlx_init(void) { return dlx_forget(dlx_hip.hipInit(0)); }
static int dlx_read_version(void) { return dlx_forget(dlx_hip.hipRuntimeGetVersion(&dlx_hip_version)); }
*/
import "C"

import (
	"os"
	"sync"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/dl"
)

// LibraryVariable is the environment variable that names a library to open instead of libamdhip64. CompilerVariable
// names one to open instead of libhiprtc.
const (
	LibraryVariable  = "DLX_HIP_LIBRARY"
	CompilerVariable = "DLX_HIPRTC_LIBRARY"
)

// Driver is HIP's runtime.
var Driver cudalike.Driver = library{}

type library struct{}

func (library) Load() (s cudalike.Status, err error) {
	if err := load(); err != nil {
		return s, err
	}
	return initialise(), nil
}

// opened is the library that load has opened.
var opened *dl.Library

// load opens the library and fills the table. It does so once: the library is never closed, since drivers crash when
// they are unloaded. It fails with core.ErrNotSupported if there is no library, and with core.ErrVersion if the library
// lacks a function that dlx cannot do without.
var load = sync.OnceValue(func() error {
	names := []string{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}
	if name := os.Getenv(LibraryVariable); name != "" {
		names = []string{name}
	}
	l, err := dl.Open("rocm", names...)
	if err != nil {
		return err
	}
	opened = l
	return resolve(l, 0, C.dlx_hip_count)
})

// initialise starts HIP, and learns the version of the library.
var initialise = sync.OnceValue(func() cudalike.Status {
	defer dl.KeepHandlers()()
	if s := status("hipInit", Code(C.dlx_init())); !s.OK() {
		// Without a card, libraries before 6.0 say only here what the reason is.
		if _, counted := (library{}).Devices(); counted.Kind == cudalike.NoDevice {
			return counted
		}
		return s
	}
	return status("hipRuntimeGetVersion", Code(C.dlx_read_version()))
})

// resolve fills one of the two tables with the functions of a library.
func resolve(l *dl.Library, compiler, count C.int) error {
	symbols, addresses := make([]dl.Symbol, count), make([]uintptr, count)
	for i := range symbols {
		name := C.GoString(C.dlx_entry(compiler, C.int(i)).name)
		since, needed := required[name]
		symbols[i] = dl.Symbol{Name: name, Since: since, Optional: !needed && compiler == 0, Address: &addresses[i]}
	}
	if err := l.Resolve(symbols); err != nil {
		return err
	}
	for i, a := range addresses {
		C.dlx_set(compiler, C.int(i), C.uintptr_t(a))
	}
	return nil
}

// required has the functions that dlx cannot do without, and the version of HIP that introduced each. One function
// stands for several that came with it. Other missing functions return hipErrorNotSupported.
var required = map[string]string{
	"hipInit":                            "1.0",
	"hipGetDevice":                       "1.0",
	"hipGetErrorName":                    "1.0",
	"hipGetErrorString":                  "1.0",
	"hipGetLastError":                    "1.0",
	"hipMemcpyAsync":                     "1.0",
	"hipRuntimeGetVersion":               "1.0",
	"hipPointerGetAttributes":            "1.0",
	"hipStreamIsCapturing":               "4.3",
	"hipThreadExchangeStreamCaptureMode": "5.0",
}

// has reports whether the library has the function.
func has(name string) bool {
	for i := range C.dlx_hip_count {
		if e := C.dlx_entry(0, i); C.GoString(e.name) == name {
			return *e.at != C.dlx_hip_missing
		}
	}
	return false
}

// newer reports whether the library has at least a version, such as C.DLX_HIP_6_0.
func newer(version C.int) bool { return C.dlx_hip_version >= version }
