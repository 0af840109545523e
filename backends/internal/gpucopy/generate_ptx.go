//go:build ignore

// Command generate_ptx compiles the text of gpucopy.CUDA to PTX, compressed by gzip, into the file that it is given, with the NVRTC
// that lies in the folder DLX_CUDA_TOOLS.
package main

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdlib.h>
//
// // The part of nvrtc.h that is needed: it is no file of the system.
// typedef void *program;
// typedef int (*create_fn)(program *, const char *, const char *, int, const char *const *, const char *const *);
// typedef int (*compile_fn)(program, int, const char *const *);
// typedef int (*size_fn)(program, size_t *);
// typedef int (*text_fn)(program, char *);
//
// static char *get(void *library, program p, const char *size_name, const char *text_name) {
//     size_fn size = (size_fn)dlsym(library, size_name);
//     text_fn text = (text_fn)dlsym(library, text_name);
//     size_t n = 0;
//     char *out = NULL;
//     if (size && text && size(p, &n) == 0 && (out = calloc(1, n + 1)) != NULL)
//         text(p, out);
//     return out;
// }
//
// // Gives what was made in ptx, and what there is to say in log; the caller frees both.
// static int compile(const char *path, const char *source, const char *option, char **ptx, char **log) {
//     void *library = dlopen(path, RTLD_NOW);
//     create_fn create = library ? (create_fn)dlsym(library, "nvrtcCreateProgram") : NULL;
//     compile_fn make = library ? (compile_fn)dlsym(library, "nvrtcCompileProgram") : NULL;
//     program p = NULL;
//     if (!create || !make || create(&p, source, "gather.cu", 0, NULL, NULL) != 0)
//         return -1;
//     int result = make(p, 1, &option);
//     *log = get(library, p, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog");
//     *ptx = get(library, p, "nvrtcGetPTXSize", "nvrtcGetPTX");
//     return result;
// }
import "C"

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
)

// version is the line that says what the text needs. NVRTC writes the newest that it
// knows, which older drivers refuse (8.4 needs a driver for CUDA 12.4). What our kernels
// become is all in PTX 6.0, which CUDA 9.0 brought, and the cards came before that.
var version = regexp.MustCompile(`(?m)^\.version .*$`)

func main() {
	if len(os.Args) != 2 {
		fail("usage: generate_ptx result.ptx.gz")
	}
	library := filepath.Join(os.Getenv("DLX_CUDA_TOOLS"), "cuda_nvrtc", "lib", "libnvrtc.so.12")
	var text, log *C.char
	result := C.compile(C.CString(library), C.CString(gpucopy.CUDA()), C.CString("--gpu-architecture=compute_50"), &text, &log)
	if result != 0 || text == nil {
		fail(fmt.Sprintf("%s: nvrtcResult %d\n%s", library, result, C.GoString(log)))
	}
	made := version.ReplaceAllString(C.GoString(text), ".version 6.0")
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if _, err := w.Write([]byte(made)); err != nil {
		fail(err.Error())
	}
	if err := w.Close(); err != nil {
		fail(err.Error())
	}
	if err := os.WriteFile(os.Args[1], out.Bytes(), 0o644); err != nil {
		fail(err.Error())
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
