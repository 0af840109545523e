//go:build rocm && linux && cgo

package driver

/*
#include "shim.h"

extern void dlxHIPHostFunc(uintptr_t);

static void dlx_host_func(void *n) { dlxHIPHostFunc((uintptr_t)n); }
static void dlx_callback(hipStream_t stream, hipError_t status, void *n) { dlxHIPHostFunc((uintptr_t)n); }

// Libraries before 5.3 have no hipLaunchHostFunc. Later work of the stream also waits for a callback.
static inline hipError_t dlx_enqueue_host(hipStream_t stream, void *n) {
	if ((void *)dlx_hip.hipLaunchHostFunc == dlx_hip_missing) return dlx_hip.hipStreamAddCallback(stream, dlx_callback, n, 0);
	return dlx_hip.hipLaunchHostFunc(stream, dlx_host_func, n);
}

static hipError_t dlx_launch_host(int device, uintptr_t stream, uintptr_t n) {
	DLX_RELAXED(device, dlx_enqueue_host((hipStream_t)stream, (void *)n));
}
*/
import "C"

import "github.com/dlx-go/dlx/backends/internal/cudalike"

var hostFuncs = cudalike.NewHostFuncs("rocm")

func (c context) LaunchHostFunc(stream uintptr, f func()) cudalike.Status {
	n := hostFuncs.Add(c.ID(), f)
	call := "hipLaunchHostFunc"
	if !has(call) {
		call = "hipStreamAddCallback"
	}
	s := answer(call, C.dlx_launch_host(c.device(), C.uintptr_t(stream), C.uintptr_t(n)))
	if !s.OK() {
		hostFuncs.Drop(n)
	}
	return s
}

//export dlxHIPHostFunc
func dlxHIPHostFunc(n C.uintptr_t) { hostFuncs.Run(uintptr(n)) }

func (c context) RunsHostFunc() bool { return hostFuncs.Running(c.ID()) }

func (c context) DropHostFuncs() { hostFuncs.DropAll(c.ID()) }
