//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

extern void dlxCUDAHostFunc(uintptr_t);

static void dlx_host_func(void *n) { dlxCUDAHostFunc((uintptr_t)n); }

static CUresult dlx_launch_host(uintptr_t context, uintptr_t stream, uintptr_t n) {
	DLX_RELAXED(context, cuLaunchHostFunc((CUstream)stream, dlx_host_func, (void *)n));
}
*/
import "C"

import "github.com/dlx-go/dlx/backends/internal/cudalike"

var hostFuncs = cudalike.NewHostFuncs("cuda")

func (c context) LaunchHostFunc(stream uintptr, f func()) cudalike.Status {
	n := hostFuncs.Add(c.ID(), f)
	s := answer("cuLaunchHostFunc", C.dlx_launch_host(C.uintptr_t(c), C.uintptr_t(stream), C.uintptr_t(n)))
	if !s.OK() {
		hostFuncs.Drop(n)
	}
	return s
}

//export dlxCUDAHostFunc
func dlxCUDAHostFunc(n C.uintptr_t) { hostFuncs.Run(uintptr(n)) }

func (c context) RunsHostFunc() bool { return hostFuncs.Running(c.ID()) }

func (c context) DropHostFuncs() { hostFuncs.DropAll(c.ID()) }
