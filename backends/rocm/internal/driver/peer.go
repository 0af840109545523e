//go:build rocm && linux && cgo

package driver

/*
#include "shim.h"

static hipError_t dlx_can_access(int device, int peer, int *can) {
	return dlx_forget(dlx_hip.hipDeviceCanAccessPeer(can, device, peer));
}

static hipError_t dlx_peer_enable(int device, int peer) {
	DLX_RELAXED(device, dlx_hip.hipDeviceEnablePeerAccess(peer, 0));
}

static hipError_t dlx_peer_copy(int device, int to, uintptr_t dst, int from, uintptr_t src, size_t n, uintptr_t stream) {
	DLX_IN(device, dlx_hip.hipMemcpyPeerAsync((void *)dst, to, (void *)src, from, n, (hipStream_t)stream));
}
*/
import "C"

import (
	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

func (library) CanAccessPeer(ordinal, peer int32) (bool, cudalike.Status) {
	var can C.int
	s := answer("hipDeviceCanAccessPeer", C.dlx_can_access(C.int(ordinal), C.int(peer), &can))
	return can != 0, s
}

func (c context) EnablePeer(peer cudalike.ContextID) cudalike.Status {
	s := answer("hipDeviceEnablePeerAccess", C.dlx_peer_enable(c.device(), ordinalOf(peer)))
	switch Code(s.Code) {
	case PeerAccessEnabled, PeerAccessUnsupported, InvalidDevice: // HIP's answer for devices without access
		return cudalike.Status{}
	}
	return s
}

func (c context) CopyPeer(p cudalike.PeerCopy, n int64, stream uintptr) cudalike.Status {
	return answer("hipMemcpyPeerAsync", C.dlx_peer_copy(c.device(), ordinalOf(p.To), C.uintptr_t(p.Dst), ordinalOf(p.From), C.uintptr_t(p.Src), C.size_t(n), C.uintptr_t(stream)))
}

// CopyPeerBox is not called: see Facts.NoPeerBoxes.
func (c context) CopyPeerBox(cudalike.PeerCopy, copyplan.Box, uintptr) cudalike.Status {
	return unsupported("hipMemcpy3DPeerAsync")
}
