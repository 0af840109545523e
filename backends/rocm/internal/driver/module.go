//go:build rocm && linux && cgo

package driver

/*
#include "shim.h"

static hipError_t dlx_module(int device, const void *image, hipModule_t *out) {
	DLX_RELAXED(device, dlx_hip.hipModuleLoadData(out, image));
}

static hipError_t dlx_function(int device, uintptr_t module, const char *name, hipFunction_t *out) {
	DLX_RELAXED(device, dlx_hip.hipModuleGetFunction(out, (hipModule_t)module, name));
}

static hipError_t dlx_unload(int device, uintptr_t module) {
	DLX_RELAXED(device, dlx_hip.hipModuleUnload((hipModule_t)module));
}
*/
import "C"

import (
	"errors"
	"os"
	"strings"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/rocm/internal/codecache"
)

// compiled has the code of texts that were compiled, in this process or before. Code of a library that the environment
// names is not for later processes: the name may stand for another library then, or for one for tests.
var compiled = codecache.New(func() (string, error) {
	if os.Getenv(LibraryVariable) != "" || os.Getenv(CompilerVariable) != "" {
		return "", errors.ErrUnsupported
	}
	return os.UserCacheDir()
})

// LoadModule loads machine code, an ELF file, and PTX, which HIP over CUDA takes. It compiles anything else, which is text,
// for the device first. AMD's library keeps the address of the code: neither the kernels of gpucopy nor those in compiled
// are ever freed. CUDA copies PTX, which must end with a zero byte.
func (c context) LoadModule(image string) (uintptr, cudalike.Status) {
	defer dl.KeepHandlers()()
	switch {
	case strings.HasPrefix(image, "\x7fELF"):
		return c.load(unsafe.Pointer(unsafe.StringData(image)))
	case gpucopy.IsPTX(image):
		ptx := unsafe.Pointer(C.CString(image))
		defer C.free(ptx)
		return c.load(ptx)
	}
	code, key, fresh, s := c.compile(image)
	if !s.OK() {
		return 0, s
	}
	module, s := c.load(unsafe.Pointer(unsafe.StringData(code)))
	if s.Kind != cudalike.WrongImage || fresh {
		return module, s
	}
	// The code is of the cache, where it would stay for all later processes.
	compiled.Drop(key, code)
	if code, _, _, s = c.compile(image); !s.OK() {
		return 0, s
	}
	return c.load(unsafe.Pointer(unsafe.StringData(code)))
}

// load loads machine code or PTX.
func (c context) load(data unsafe.Pointer) (uintptr, cudalike.Status) {
	var made C.hipModule_t
	s := answer("hipModuleLoadData", C.dlx_module(c.device(), data, &made))
	return uintptr(unsafe.Pointer(made)), s
}

// compile compiles a text for the device's architecture, unless the code is in the cache: then fresh is false.
func (c context) compile(text string) (code, key string, fresh bool, s cudalike.Status) {
	var arch [C.DLX_ARCH_SIZE]C.char
	if s := answer("hipGetDeviceProperties", C.dlx_arch(c.device(), &arch[0])); !s.OK() {
		return "", "", false, s
	}
	version, s := openCompiler()
	if !s.OK() {
		return "", "", false, s
	}
	target := C.GoString(&arch[0])
	key = codecache.Key(text, target, version)
	code, _ = compiled.Get(key, func() (string, bool) {
		fresh = true
		code, s = compile(text, target)
		return code, s.OK()
	})
	return code, key, fresh, s
}

func (c context) Function(module uintptr, name string) (uintptr, cudalike.Status) {
	defer dl.KeepHandlers()()
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var f C.hipFunction_t
	s := answer("hipModuleGetFunction", C.dlx_function(c.device(), C.uintptr_t(module), cname, &f))
	return uintptr(unsafe.Pointer(f)), s
}

func (c context) UnloadModule(module uintptr) cudalike.Status {
	defer dl.KeepHandlers()()
	return answer("hipModuleUnload", C.dlx_unload(c.device(), C.uintptr_t(module)))
}
