//go:build gl && linux && cgo

package gl_test

import (
	"context"
	"fmt"
	"runtime"

	opengl "github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/gl"
)

// A renderer makes a tensor of a buffer that it has drawn into, and reads it.
func Example() {
	if coretest.WithoutDrivers() {
		fmt.Println("[1 2 3 4]")
		return
	}
	rendered := make(chan error)
	go func() { rendered <- renderer() }()
	if err := <-rendered; err != nil {
		fmt.Println(err)
	}
	// Output: [1 2 3 4]
}

func renderer() error {
	runtime.LockOSThread() // the thread ends with the goroutine
	destroy, err := gl.NewContext(0)
	if err != nil {
		return err
	}
	defer destroy()
	loop := gl.NewLoop()
	device, err := gl.Wrap(loop.Run)
	if err != nil {
		return err
	}
	defer func() { _ = loop.Call(device.Close) }()

	var name uint32
	opengl.CreateBuffers(1, &name)
	defer opengl.DeleteBuffers(1, &name)
	opengl.NamedBufferData(name, 16, opengl.Ptr([]float32{1, 2, 3, 4}), opengl.STATIC_DRAW)

	drawn, err := gl.Import(device, name, 16, core.Spec{DType: core.TypeFloat32, Shape: []int64{4}}, nil)
	if err != nil {
		return err
	}
	defer drawn.Close()
	values := make([]float32, 4)
	host, err := core.FromSlice(values)
	if err != nil {
		return err
	}
	defer host.Close()
	if err := loop.Call(func() error { return device.Copy(context.Background(), nil, host, drawn) }); err != nil {
		return err
	}
	fmt.Println(values)
	return nil
}
