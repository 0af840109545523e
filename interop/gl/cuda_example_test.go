//go:build gl && cuda && linux && cgo

package gl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	opengl "github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/gl"
)

// CUDA writes what a renderer draws.
func ExampleRegisterCUDA() {
	drawn := make([]float32, 4)
	rendered := make(chan error)
	go func() { rendered <- rendererWithCUDA(drawn) }()
	if err := <-rendered; err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(drawn) // [1 2 3 4]
}

// rendererWithCUDA draws four elements, and reads them into drawn.
func rendererWithCUDA(drawn []float32) error {
	runtime.LockOSThread() // the thread ends with the goroutine
	destroy, err := gl.NewContext(0)
	if err != nil {
		return err
	}
	defer destroy()
	loop := gl.NewLoop()

	ctx := context.Background()
	card, err := gl.CUDADevice(ctx, loop.Run)
	if err != nil {
		return err
	}
	device, err := cuda.New().Open(ctx, card)
	if err != nil {
		return err
	}
	defer device.Close()
	stream, err := device.NewStream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()

	var name uint32
	opengl.CreateBuffers(1, &name)
	defer opengl.DeleteBuffers(1, &name)
	opengl.NamedBufferData(name, 16, nil, opengl.DYNAMIC_DRAW)
	shared, err := gl.RegisterCUDA(loop.Run, device, name, gl.WriteDiscard)
	if err != nil {
		return err
	}
	defer shared.Close()

	// For every frame:
	x, err := shared.Map(ctx, stream, core.Spec{DType: core.TypeFloat32, Shape: []int64{4}})
	if err != nil {
		return err
	}
	host, err := core.FromSlice([]float32{1, 2, 3, 4})
	if err != nil {
		return err
	}
	err = device.Copy(ctx, stream, x, host) // enqueued, not done
	if err := errors.Join(err, host.Close(), x.Close(), shared.Unmap(ctx, stream)); err != nil {
		return err
	}

	opengl.GetNamedBufferSubData(name, 0, 16, opengl.Ptr(drawn))
	return nil
}

func TestTheExampleReadsWhatCUDAWrote(t *testing.T) {
	for _, b := range []core.Backend{gl.New(), cuda.New()} {
		coretest.NeedDriver(t, b.Probe(t.Context()).Reason, "libegl1, libgl1-mesa-dri and the driver of an NVIDIA card, or let DLX_CUDA_LIBRARY name the simulated one (make gpusim)")
	}
	drawn := make([]float32, 4)
	rendered := make(chan error)
	go func() { rendered <- rendererWithCUDA(drawn) }()
	err := <-rendered
	if errors.Is(err, core.ErrDevice) && os.Getenv("DLX_VULKAN_DRIVER") == "swiftshader" {
		t.Skip("the simulated CUDA shares memory with SwiftShader, which has no OpenGL: ", err)
	}
	if errors.Is(err, core.ErrDevice) || errors.Is(err, core.ErrNotSupported) { // Mesa's OpenGL beside a card, say
		coretest.NeedDriver(t, err.Error(), "the card's driver for OpenGL")
	}
	if err != nil || !slices.Equal(drawn, []float32{1, 2, 3, 4}) {
		t.Errorf("%v, %v", drawn, err)
	}
}
