//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

// Headers have it since CUDA 12.4.
CUresult CUDAAPI cuFuncLoad(CUfunction function);

static CUresult dlx_load(uintptr_t context, uintptr_t function) {
	DLX_RELAXED(context, cuFuncLoad((CUfunction)function));
}
*/
import "C"

import (
	"gorgonia.org/cu"

	"github.com/dlx-go/dlx/backends/cuda/internal/link"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/dl"
)

func (c context) LoadModule(image string) (raw uintptr, s cudalike.Status) {
	defer dl.KeepHandlers()()
	s = c.do("cuModuleLoadData", func() error {
		m, err := cu.LoadData(image)
		raw = handle(m)
		return err
	})
	return raw, s
}

// Function finds a function and loads it completely. cuModuleGetFunction loads it ("Lazy Loading"), but what the
// driver has loaded then cuFuncLoad alone says, where it is there (CUDA 12.4).
func (c context) Function(module uintptr, name string) (raw uintptr, s cudalike.Status) {
	defer dl.KeepHandlers()()
	s = c.do("cuModuleGetFunction", func() error {
		f, err := object[cu.Module](module).Function(name)
		raw = handle(f)
		return err
	})
	if s.OK() && link.Has("cuFuncLoad") {
		s = answer("cuFuncLoad", C.dlx_load(C.uintptr_t(c), C.uintptr_t(raw)))
	}
	return raw, s
}

func (c context) UnloadModule(raw uintptr) cudalike.Status {
	defer dl.KeepHandlers()()
	return c.do("cuModuleUnload", func() error { return object[cu.Module](raw).Unload() })
}
