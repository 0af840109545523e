//go:build vulkan && linux && cgo

package gpucopy_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/gpucopytest"
	"github.com/dlx-go/dlx/core/coretest"
)

// open opens the Vulkan device, which is missing only where that was said.
func open(t testing.TB, validate bool) *gpucopytest.GPU {
	t.Helper()
	g, err := gpucopytest.Open(validate)
	if err != nil {
		coretest.NeedDriver(t, err.Error(), "mesa-vulkan-drivers and vulkan-validationlayers")
	}
	t.Cleanup(g.Close)
	return g
}

// gpu is the machine that the shaders are for.
type gpu struct {
	*gpucopytest.GPU
	dst, src *gpucopytest.Buffer
}

func (g *gpu) Room(t testing.TB, dst, src int) (to, from []byte) {
	t.Helper()
	g.free()
	var err error
	if g.dst, err = g.Buffer(dst); err != nil {
		t.Fatal(err)
	}
	if g.src, err = g.Buffer(src); err != nil {
		t.Fatal(err)
	}
	return g.dst.Bytes(), g.src.Bytes()
}

func (g *gpu) free() {
	for _, b := range []**gpucopytest.Buffer{&g.dst, &g.src} {
		if *b != nil {
			(*b).Free()
			*b = nil
		}
	}
}

func (g *gpu) Run(t testing.TB, plan []gpucopy.Dispatch) {
	t.Helper()
	if err := g.Dispatch(g.dst, g.src, plan); err != nil {
		t.Fatal(err)
	}
}

// Every shader, on a real driver with the validation layer on.
func TestShadersMoveTheSameElements(t *testing.T) {
	g := &gpu{GPU: open(t, true)}
	t.Cleanup(g.free)
	l := g.Limits()
	for name, has := range map[string]bool{"8": l.Storage8, "16": l.Storage16} {
		if !has {
			t.Run("storage of "+name+" bits", func(t *testing.T) {
				t.Skipf("the driver has no storageBuffer%sBitAccess: what needs it runs as packed words", name)
			})
		}
	}
	gpucopytest.CheckAll(t, g, l, 10)
	if n, first := g.Messages(); n != 0 {
		t.Errorf("%d messages of the validation layer, the first: %s", n, first)
	}
}
