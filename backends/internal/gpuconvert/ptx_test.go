//go:build cuda && linux && cgo

package gpuconvert_test

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/internal/testing/gpusim/ptx"
)

// The PTX of CUDA's text has the bits of the host, and touches no memory but the tensors'.
func TestPTX(t *testing.T) {
	m, err := ptx.Load(gpucopy.PTX())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	kernel, err := m.Function(gpuconvert.Kernel)
	if err != nil {
		t.Fatal(err)
	}
	bytesOf := func(address uint64) []byte {
		return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&address)), unsafe.Sizeof(address)))
	}
	checkBits(t, func(d gpuconvert.Dispatch, dst, src []byte) error {
		const atDst, atSrc = 1 << 20, 1 << 24
		memory := []ptx.Memory{{Address: atDst, Bytes: dst}, {Address: atSrc, Bytes: src, ReadOnly: true}}
		constants := bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&d.Constants)), unsafe.Sizeof(d.Constants)))
		return kernel.Run([3]uint32{d.Groups, 1, 1}, [3]uint32{gpuconvert.GroupSize, 1, 1}, memory,
			bytesOf(atDst+uint64(d.Dst.Offset)), bytesOf(atSrc+uint64(d.Src.Offset)), constants)
	})
}
