//go:build (rocm || vulkan) && linux && cgo

package gpucopy_test

import (
	"bytes"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/gpucopytest"
)

// onHost carries out dispatches by kernels that were compiled for the host.
type onHost struct {
	*gpucopytest.Host
	dst, src []byte
}

func (h *onHost) Room(_ testing.TB, dst, src int) (to, from []byte) {
	h.dst, h.src = make([]byte, dst), make([]byte, src)
	return h.dst, h.src
}

func (h *onHost) Run(t testing.TB, plan []gpucopy.Dispatch) {
	t.Helper()
	for _, d := range plan {
		if err := h.Host.Run(d, h.dst, h.src); err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
	}
}

// checkUnpacked runs all cases with the variants of an API that stores words of any size.
func checkUnpacked(t *testing.T, h *gpucopytest.Host, l gpucopy.Limits) {
	l.Tiles = false
	for name, l := range gpucopytest.Variants(l) {
		if l.Storage8 {
			t.Run(name, func(t *testing.T) { gpucopytest.CheckCases(t, &onHost{Host: h}, l, 10) })
		}
	}
}

// checkNeedsBarriers fails if kernels without barriers move what they should.
func checkNeedsBarriers(t *testing.T, h *gpucopytest.Host) {
	t.Helper()
	var got [2][]byte
	for i, m := range []gpucopytest.Machine{&host{}, &onHost{Host: h}} {
		to, from := m.Room(t, 4096, 4096)
		for i := range from {
			from[i] = byte(i * i >> 4)
		}
		m.Run(t, []gpucopy.Dispatch{transposeByTiles})
		got[i] = to
	}
	if bytes.Equal(got[0], got[1]) {
		t.Error("the same elements without a barrier")
	}
}

// transposeByTiles needs the barriers of its kernel.
var transposeByTiles = gpucopy.Dispatch{
	Shader: gpucopy.Shader{Word: 4, Tiled: true}, Dst: gpucopy.Window{Size: 4096}, Src: gpucopy.Window{Size: 4096},
	Constants: gpucopy.Constants{
		Planes: 1, N: [8]uint32{32, 32, 1, 1, 1, 1, 1, 1}, DstStep: [8]int32{1, 32}, SrcStep: [8]int32{32, 1},
	},
	Groups: [3]uint32{1, 1, 1},
}
