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

import "unsafe"

// IPCHandle is a CUipcMemHandle or a CUipcEventHandle.
type IPCHandle [C.CU_IPC_HANDLE_SIZE]byte

// ExportIPC gives the handle of an allocation of cuMemAlloc.
func (c Context) ExportIPC(address uintptr) (h IPCHandle, s Status) {
	s = Status(C.dlx_ipc_export(C.uintptr_t(c), C.CUdeviceptr(address), unsafe.Pointer(&h)))
	return h, s
}

// OpenIPC maps the allocation of another process.
func (c Context) OpenIPC(h IPCHandle) (address uintptr, s Status) {
	var p C.CUdeviceptr
	s = Status(C.dlx_ipc_open(C.uintptr_t(c), unsafe.Pointer(&h), &p))
	return uintptr(p), s
}

// CloseIPC unmaps what OpenIPC mapped.
func (c Context) CloseIPC(address uintptr) Status {
	return Status(C.dlx_ipc_close(C.uintptr_t(c), C.CUdeviceptr(address)))
}

// NewIPCEvent makes an event that other processes can open.
func (c Context) NewIPCEvent() (uintptr, Status) {
	var e C.CUevent
	s := Status(C.dlx_ipc_event(C.uintptr_t(c), &e))
	return uintptr(unsafe.Pointer(e)), s
}

// ExportIPCEvent gives the handle of an event of NewIPCEvent.
func (c Context) ExportIPCEvent(event uintptr) (h IPCHandle, s Status) {
	s = Status(C.dlx_ipc_event_export(C.uintptr_t(c), C.uintptr_t(event), unsafe.Pointer(&h)))
	return h, s
}

// OpenIPCEvent makes an event of another process's handle.
func (c Context) OpenIPCEvent(h IPCHandle) (uintptr, Status) {
	var e C.CUevent
	s := Status(C.dlx_ipc_event_open(C.uintptr_t(c), unsafe.Pointer(&h), &e))
	return uintptr(unsafe.Pointer(e)), s
}
