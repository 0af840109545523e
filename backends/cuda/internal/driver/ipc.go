//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

static CUresult dlx_ipc_export(uintptr_t context, CUdeviceptr p, void *handle) {
	DLX_RELAXED(context, cuIpcGetMemHandle(handle, p));
}

static CUresult dlx_ipc_open(uintptr_t context, const void *handle, CUdeviceptr *p) {
	DLX_RELAXED(context, cuIpcOpenMemHandle(p, *(const CUipcMemHandle *)handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

static CUresult dlx_ipc_close(uintptr_t context, CUdeviceptr p) {
	DLX_RELAXED(context, cuIpcCloseMemHandle(p));
}

static CUresult dlx_ipc_event(uintptr_t context, CUevent *e) {
	DLX_RELAXED(context, cuEventCreate(e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
}

static CUresult dlx_ipc_event_export(uintptr_t context, uintptr_t e, void *handle) {
	DLX_RELAXED(context, cuIpcGetEventHandle(handle, (CUevent)e));
}

static CUresult dlx_ipc_event_open(uintptr_t context, const void *handle, CUevent *e) {
	DLX_RELAXED(context, cuIpcOpenEventHandle(e, *(const CUipcEventHandle *)handle));
}
*/
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

// The handles have the size of cudalike's.
var _ cudalike.IPCHandle = [C.CU_IPC_HANDLE_SIZE]byte{}

func (c context) ExportIPC(address uintptr) (h cudalike.IPCHandle, s cudalike.Status) {
	s = answer("cuIpcGetMemHandle", C.dlx_ipc_export(C.uintptr_t(c), C.CUdeviceptr(address), unsafe.Pointer(&h)))
	return h, s
}

func (c context) OpenIPC(h cudalike.IPCHandle) (address uintptr, s cudalike.Status) {
	var p C.CUdeviceptr
	s = answer("cuIpcOpenMemHandle", C.dlx_ipc_open(C.uintptr_t(c), unsafe.Pointer(&h), &p))
	return uintptr(p), s
}

func (c context) CloseIPC(address uintptr) cudalike.Status {
	return answer("cuIpcCloseMemHandle", C.dlx_ipc_close(C.uintptr_t(c), C.CUdeviceptr(address)))
}

func (c context) NewIPCEvent() (uintptr, cudalike.Status) {
	var e C.CUevent
	s := answer("cuEventCreate", C.dlx_ipc_event(C.uintptr_t(c), &e))
	return uintptr(unsafe.Pointer(e)), s
}

func (c context) ExportIPCEvent(event uintptr) (h cudalike.IPCHandle, s cudalike.Status) {
	s = answer("cuIpcGetEventHandle", C.dlx_ipc_event_export(C.uintptr_t(c), C.uintptr_t(event), unsafe.Pointer(&h)))
	return h, s
}

func (c context) OpenIPCEvent(h cudalike.IPCHandle) (uintptr, cudalike.Status) {
	var e C.CUevent
	s := answer("cuIpcOpenEventHandle", C.dlx_ipc_event_open(C.uintptr_t(c), unsafe.Pointer(&h), &e))
	return uintptr(unsafe.Pointer(e)), s
}
