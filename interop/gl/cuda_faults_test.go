//go:build gl && cuda && linux && cgo

package gl

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

func TestEveryCallForACUDABufferMayFail(t *testing.T) {
	sim, err := gpusim.Open()
	if err != nil {
		t.Skip("not the simulated driver: " + err.Error())
	}
	sim.ClearMisuse()
	render(t, func(loop *Loop, _ core.Device) {
		name := newBuffer("sixteen bytes!!!")
		defer gl.DeleteBuffers(1, &name)
		const unknown = 999 // CUDA_ERROR_UNKNOWN
		_ = loop.Call(func() error {
			failed := coretest.EachCall{Faults: sim, Code: unknown, Life: func(ctx context.Context) error {
				return useOnce(ctx, loop, name)
			}}.Run(t)
			for _, call := range []string{
				"cuGraphicsGLRegisterBuffer", "cuGraphicsMapResources", "cuGraphicsResourceGetMappedPointer",
				"cuGraphicsUnmapResources", "cuGraphicsUnregisterResource",
			} {
				if !slices.Contains(failed, call) {
					t.Errorf("%s was not called", call)
				}
			}
			return nil
		})
	})
	for _, m := range sim.Misuse() {
		t.Errorf("the driver was misused: %s", m)
	}
}

// useOnce opens a device, registers, maps, reads, unmaps and closes. Unmap is tried twice: the
// buffer may still be mapped where it fails.
func useOnce(ctx context.Context, loop *Loop, name uint32) (err error) {
	d, err := cuda.New().Open(ctx, core.DeviceID{Type: core.DeviceCUDA})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	s, err := d.NewStream(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	shared, err := RegisterCUDA(loop.Run, d, name, ReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shared.Close()) }()
	x, err := shared.Map(ctx, s, bytesOf(16))
	if err != nil {
		return err
	}
	err = errors.Join(s.Synchronize(ctx), x.Close())
	if failed := shared.Unmap(ctx, s); failed != nil {
		err = errors.Join(err, failed)
		_ = shared.Unmap(ctx, s)
	}
	return err
}
