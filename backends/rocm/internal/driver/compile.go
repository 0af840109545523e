//go:build rocm && linux && cgo

package driver

/*
#include "shim.h"

struct dlx_compiled {
	int code;         // of the compiler
	const char *call; // the function that failed
	char *binary;     // the caller frees it
	size_t size;
};

static inline int dlx_compile_steps(void *program, const char **options, int count, struct dlx_compiled *out) {
	out->call = "hiprtcCompileProgram";
	int r = dlx_hiprtc.hiprtcCompileProgram(program, count, options);
	if (r != 0) return r;
	out->call = "hiprtcGetCodeSize";
	r = dlx_hiprtc.hiprtcGetCodeSize(program, &out->size);
	if (r != 0) return r;
	out->call = "hiprtcGetCode";
	out->binary = calloc(out->size + 1, 1);
	return out->binary ? dlx_hiprtc.hiprtcGetCode(program, out->binary) : 1; // HIPRTC_ERROR_OUT_OF_MEMORY
}

static void dlx_compile(const char *text, const char **options, int count, struct dlx_compiled *out) {
	void *program;
	out->call = "hiprtcCreateProgram";
	out->code = dlx_hiprtc.hiprtcCreateProgram(&program, text, "gather.hip", 0, NULL, NULL);
	if (out->code != 0) return;
	out->code = dlx_compile_steps(program, options, count, out);
	(void)dlx_hiprtc.hiprtcDestroyProgram(&program);
}

static int dlx_compiler_version(int *major, int *minor) { return dlx_hiprtc.hiprtcVersion(major, minor); }
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/dl"
)

// openCompiler opens the library of the compiler, and returns its version.
var openCompiler = sync.OnceValues(func() (version string, s cudalike.Status) {
	l, err := compilerLibrary()
	if err == nil {
		err = resolve(l, 1, C.dlx_hiprtc_count)
	}
	if err != nil {
		return "", cudalike.Status{Call: "hiprtc", Code: int32(NotSupported), Kind: cudalike.NotSupported}
	}
	var major, minor C.int
	if r := C.dlx_compiler_version(&major, &minor); r != 0 {
		return "", status("hiprtcVersion", compilerCodes+Code(r))
	}
	return fmt.Sprintf("%d.%d of HIP %d", major, minor, C.dlx_hip_version), s
})

// compilerLibrary returns the library that has the compiler. Before HIP 7 that is HIP's own.
func compilerLibrary() (*dl.Library, error) {
	if name := os.Getenv(CompilerVariable); name != "" {
		return dl.Open("rocm", name)
	}
	if opened.Lookup("hiprtcCompileProgram") != 0 {
		return opened, nil
	}
	return dl.Open("rocm", "libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so")
}

// compile compiles a text for an architecture.
func compile(text, arch string) (code string, s cudalike.Status) {
	source := C.CString(text)
	defer C.free(unsafe.Pointer(source))
	options := []*C.char{C.CString("--offload-arch=" + arch), C.CString("-std=c++17")}
	defer func() {
		for _, o := range options {
			C.free(unsafe.Pointer(o))
		}
	}()
	array := (**C.char)(C.malloc(C.size_t(len(options)) * C.size_t(unsafe.Sizeof(options[0]))))
	defer C.free(unsafe.Pointer(array))
	copy(unsafe.Slice(array, len(options)), options)
	var out C.struct_dlx_compiled
	C.dlx_compile(source, array, C.int(len(options)), &out)
	defer C.free(unsafe.Pointer(out.binary))
	if out.code != 0 {
		return "", status(C.GoString(out.call), compilerCodes+Code(out.code))
	}
	return C.GoStringN(out.binary, C.int(out.size)), s
}
