//go:build gl && cuda && linux && cgo

package gl

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/go-gl/gl/v2.1/gl"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/gpusim"
)

func TestEveryCallForACUDABufferMayFail(t *testing.T) {
	sim, err := gpusim.Open()
	if err != nil {
		t.Skip("not the simulated driver: " + err.Error())
	}
	sim.ClearMisuse()
	renderWithCUDA(t, func(loop *Loop, d core.Device, s core.Stream) {
		name := newBuffer("sixteen bytes!!!")
		defer gl.DeleteBuffers(1, &name)
		if err := useOnce(loop, d, s, name); err != nil { // and makes what the device keeps
			t.Error(err)
		}
		for _, call := range []string{
			"cuGraphicsGLRegisterBuffer", "cuGraphicsMapResources", "cuGraphicsResourceGetMappedPointer",
			"cuGraphicsUnmapResources", "cuGraphicsUnregisterResource", "cuEventRecord", "cuStreamIsCapturing",
		} {
			for n := 1; ; n++ {
				live, calls := resources(sim), sim.Count(call)
				sim.Fail(call, n, 0)
				err := useOnce(loop, d, s, name)
				sim.Fail(call, 0, 0)
				if sim.Count(call)-calls < n {
					break
				}
				if typed := (*core.Error)(nil); err != nil && !errors.As(err, &typed) {
					t.Errorf("%s, call %d: error %v is no *core.Error", call, n, err)
				}
				if now := resources(sim); !maps.Equal(now, live) {
					t.Errorf("%s, call %d: open at the driver: %v, before %v", call, n, now, live)
				}
			}
		}
	})
	for _, m := range sim.Misuse() {
		t.Errorf("the driver was misused: %s", m)
	}
}

// resources is what the driver has open, but for events, which devices keep for later use.
func resources(sim *gpusim.Simulator) map[string]int {
	live := sim.Live()
	delete(live, "events")
	return live
}

// useOnce registers, maps, reads, unmaps and closes. Unmap is tried twice: the
// buffer may still be mapped where it fails.
func useOnce(loop *Loop, d core.Device, s core.Stream, name uint32) error {
	ctx := context.Background()
	shared, err := RegisterCUDA(loop.Run, d, name, ReadWrite)
	if err != nil {
		return err
	}
	x, err := shared.Map(ctx, s, bytesOf(16))
	if err == nil {
		err = errors.Join(s.Synchronize(ctx), x.Close())
		if failed := shared.Unmap(ctx, s); failed != nil {
			err = errors.Join(err, failed)
			_ = shared.Unmap(ctx, s)
		}
	}
	return errors.Join(err, shared.Close())
}
