//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

static CUresult dlx_peer_enable(uintptr_t context, uintptr_t peer) {
	DLX_RELAXED(context, cuCtxEnablePeerAccess((CUcontext)peer, 0));
}

static CUresult dlx_peer_copy(uintptr_t context, uintptr_t to, CUdeviceptr dst, uintptr_t from, CUdeviceptr src, size_t n, uintptr_t stream) {
	DLX_IN(context, cuMemcpyPeerAsync(dst, (CUcontext)to, src, (CUcontext)from, n, (CUstream)stream));
}

static CUresult dlx_peer_copy_box(uintptr_t context, uintptr_t to, CUdeviceptr dst, uintptr_t from, CUdeviceptr src, uintptr_t stream,
	size_t row, size_t rows, size_t slices, size_t dst_row, size_t dst_slice, size_t src_row, size_t src_slice) {
	CUDA_MEMCPY3D_PEER box = {
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = dst, .dstContext = (CUcontext)to,
		.dstPitch = dst_row, .dstHeight = dst_slice / dst_row,
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = src, .srcContext = (CUcontext)from,
		.srcPitch = src_row, .srcHeight = src_slice / src_row,
		.WidthInBytes = row, .Height = rows, .Depth = slices,
	};
	DLX_IN(context, cuMemcpy3DPeerAsync(&box, (CUstream)stream));
}
*/
import "C"

import (
	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

func (library) CanAccessPeer(ordinal, peer int32) (bool, cudalike.Status) {
	var can C.int
	s := answer("cuDeviceCanAccessPeer", C.cuDeviceCanAccessPeer(&can, C.CUdevice(ordinal), C.CUdevice(peer)))
	return can != 0, s
}

func (c context) EnablePeer(peer cudalike.ContextID) cudalike.Status {
	r := C.dlx_peer_enable(C.uintptr_t(c), C.uintptr_t(peer))
	switch Code(r) {
	case PeerAccessEnabled, PeerAccessUnsupported, TooManyPeers:
		return cudalike.Status{}
	}
	return answer("cuCtxEnablePeerAccess", r)
}

func (c context) CopyPeer(p cudalike.PeerCopy, n int64, stream uintptr) cudalike.Status {
	return answer("cuMemcpyPeerAsync", C.dlx_peer_copy(C.uintptr_t(c), C.uintptr_t(p.To), C.CUdeviceptr(p.Dst), C.uintptr_t(p.From), C.CUdeviceptr(p.Src), C.size_t(n), C.uintptr_t(stream)))
}

func (c context) CopyPeerBox(p cudalike.PeerCopy, b copyplan.Box, stream uintptr) cudalike.Status {
	return answer("cuMemcpy3DPeerAsync", C.dlx_peer_copy_box(C.uintptr_t(c), C.uintptr_t(p.To), C.CUdeviceptr(p.Dst), C.uintptr_t(p.From), C.CUdeviceptr(p.Src), C.uintptr_t(stream),
		C.size_t(b.Row), C.size_t(b.Rows), C.size_t(b.Slices),
		C.size_t(b.DstRowPitch), C.size_t(b.DstSlicePitch), C.size_t(b.SrcRowPitch), C.size_t(b.SrcSlicePitch)))
}
