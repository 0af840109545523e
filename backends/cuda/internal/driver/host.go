//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

extern void dlxCUDAHostTurn(void *);

static CUresult dlx_launch_host(uintptr_t context, uintptr_t stream, uintptr_t work) {
	DLX_IN(context, cuLaunchHostFunc((CUstream)stream, dlxCUDAHostTurn, (void *)work));
}
*/
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// HostTurn enqueues work that the host does when all before it is done, and that all
// behind it waits for. It runs on a thread of the driver's, and calls nothing of CUDA
// (cuLaunchHostFunc). In a context that has failed it never runs, and stays.
func (c Context) HostTurn(stream uintptr, work func()) Status {
	h := cgo.NewHandle(work)
	s := Status(C.dlx_launch_host(C.uintptr_t(c), C.uintptr_t(stream), C.uintptr_t(h)))
	if s != Success {
		h.Delete()
	}
	return s
}

//export dlxCUDAHostTurn
func dlxCUDAHostTurn(work unsafe.Pointer) {
	h := cgo.Handle(uintptr(work))
	h.Value().(func())()
	h.Delete()
}
