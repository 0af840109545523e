//go:build linux && cgo

package gpucopytest

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdint.h>
// #include <stdlib.h>
//
// typedef int run_function(void *, void *, size_t, const void *, size_t, const void *, const uint32_t *, uint32_t);
//
// static int run(void *f, void *kernel, void *dst, size_t dst_size, const void *src, size_t src_size, const void *constants, const uint32_t *grid, uint32_t threads) {
//     return ((run_function *)f)(kernel, dst, dst_size, src, src_size, constants, grid, threads);
// }
import "C"

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
)

// host has the parts of HIP and of Metal that the host lacks. host.c has no Go around it: Go would compile it into the
// package.
//
//go:embed host
var host embed.FS

// Host is kernels that were compiled for the host. It is for one goroutine.
type Host struct{ library, run unsafe.Pointer }

// CompileHIP compiles the text of gpucopy.HIP, or a text like it, for the host. The caller closes the result.
func CompileHIP(folder, text string) (*Host, error) {
	if err := os.CopyFS(folder, host); err != nil {
		return nil, err
	}
	// A name of its own for each kernel, which takes the constants by their address.
	for _, s := range gpucopy.Shaders() {
		if !s.Packed {
			text += fmt.Sprintf("extern \"C\" void run_%v(void *dst, const void *src, const Constants *c) { %v(static_cast<%s *>(dst), static_cast<const %s *>(src), *c); }\n",
				s, s, hipWords[s.Word], hipWords[s.Word])
		}
	}
	text += fmt.Sprintf("extern \"C\" void run_%[1]s(void *dst, const void *src, const Conversion *c) { %[1]s(dst, src, *c); }\n", gpuconvert.Kernel)
	if err := os.WriteFile(filepath.Join(folder, "kernel.cc"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := run(folder, "c++", "-std=c++17", "-O1", "-fPIC", "-fno-gnu-unique", "-include", "host/hip.h", "-w", "-c", "kernel.cc"); err != nil {
		return nil, err
	}
	return open(folder, "kernel.o")
}

var hipWords = map[uint8]string{1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}

// open links compiled kernels with host.c, and opens the library.
func open(folder string, objects ...string) (*Host, error) {
	args := append([]string{"-shared", "-fPIC", "-O1", "-o", "kernel.so", "host/run.c"}, append(objects, "-lm")...)
	if err := run(folder, "cc", args...); err != nil {
		return nil, err
	}
	path := C.CString(filepath.Join(folder, "kernel.so"))
	defer C.free(unsafe.Pointer(path))
	library := C.dlopen(path, C.RTLD_NOW|C.RTLD_LOCAL)
	if library == nil {
		return nil, fmt.Errorf("dlopen: %s", C.GoString(C.dlerror()))
	}
	h := &Host{library: library}
	if h.run = h.symbol("dlx_run"); h.run == nil {
		h.Close()
		return nil, fmt.Errorf("no function dlx_run")
	}
	return h, nil
}

// Close unloads the kernels.
func (h *Host) Close() { C.dlclose(h.library) }

func (h *Host) symbol(name string) unsafe.Pointer {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return C.dlsym(h.library, s)
}

// Run carries out a dispatch on the memory of two buffers. If the kernel leaves the windows, the program ends, or Run fails.
func (h *Host) Run(d gpucopy.Dispatch, dst, src []byte) error {
	return h.launch(d.Shader.String(), d.Groups, gpucopy.GroupSize, dst[d.Dst.Offset:][:d.Dst.Size], src[d.Src.Offset:][:d.Src.Size], unsafe.Pointer(&d.Constants))
}

// Convert carries out a dispatch of a conversion, as Run does.
func (h *Host) Convert(d gpuconvert.Dispatch, dst, src []byte) error {
	groups := [3]uint32{d.Groups, 1, 1}
	return h.launch(gpuconvert.Kernel, groups, gpuconvert.GroupSize, dst[d.Dst.Offset:][:d.Dst.Size], src[d.Src.Offset:][:d.Src.Size], unsafe.Pointer(&d.Constants))
}

func (h *Host) launch(name string, groups [3]uint32, threads int, dst, src []byte, constants unsafe.Pointer) error {
	kernel := h.symbol("run_" + name)
	if kernel == nil {
		return fmt.Errorf("no kernel %s", name)
	}
	r := C.run(h.run, kernel, unsafe.Pointer(&dst[0]), C.size_t(len(dst)), unsafe.Pointer(&src[0]), C.size_t(len(src)),
		constants, (*C.uint32_t)(unsafe.Pointer(&groups[0])), C.uint32_t(threads))
	if r != 0 {
		return fmt.Errorf("the kernel %s wrote outside of its window (-1), or the window is too large (-2): %d", name, r)
	}
	return nil
}

// run runs a program in a folder.
func run(folder, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Dir = folder
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}
