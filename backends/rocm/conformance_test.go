//go:build rocm && linux && cgo

package rocm

import (
	"strings"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/backends/rocm/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func options() backendtest.Options {
	o := backendtest.Options{Peer: kit.Second}
	if _, err := kit.Control(); err == nil {
		o.Hold = hold
	}
	return o
}

// hold makes a stream wait until release is called, by a function of the host. HIP has no semaphores of other APIs.
func hold(tb testing.TB, s core.Stream) (release func()) {
	c, _ := driver.Driver.Retain(s.Device().ID().Index)
	released := make(chan struct{})
	if s := c.LaunchHostFunc(s.Native(), func() { <-released }); !s.OK() {
		tb.Fatal(s)
	}
	return sync.OnceFunc(func() { close(released) })
}

func TestConformance(t *testing.T) { backendtest.Run(t, first, options()) }

// The documentation allows libraries to differ, and versions of HIP do: memory cannot be exported, or not as dma-bufs; there is no machine
// code for the device; devices share the host's memory; devices cannot access each other; streams share a queue; loading kernels waits for all work;
// memory is freed when no work is left, and no other call is served before; handles and addresses are reused at once. Each process has
// a library that differs in ways that have nothing to do with each other.
func TestConformanceOfLibrariesThatDiffer(t *testing.T) {
	kit.Simulator(t)
	variants := [][]string{
		{"DLX_GPUSIM_HIP_VERSION=5", "DLX_GPUSIM_ONE_QUEUE=1"},
		{"DLX_GPUSIM_HIP_VERSION=7", "DLX_GPUSIM_PEERS=0"},
		{"DLX_GPUSIM_INTEGRATED=1"},
	}
	if !testing.Short() {
		variants = append(variants, [][]string{
			{"DLX_GPUSIM_HIP_ARCH=gfx942:sramecc+:xnack-", "DLX_GPUSIM_LAZY=1"},
			{"DLX_GPUSIM_HIP_VERSION=7", "DLX_GPUSIM_DRAIN_LOCK=1"},
			{"DLX_GPUSIM_HIP_VMM=0", "DLX_GPUSIM_CONCURRENT=0"},
			{"DLX_GPUSIM_DMA_BUF=0", "DLX_GPUSIM_REUSE=1"},
		}...)
	}
	for i, v := range variants {
		variant := backendtest.VariantOfProcess(i, len(variants))
		defer t.Run(strings.Join(v, ","), coretest.Child(t, "TestConformance", append(v, variant)...))
	}
}

func TestCloseEndsWhileOthersOpen(t *testing.T) { backendtest.ClosesUnderLoad(t, first) }
