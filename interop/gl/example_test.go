//go:build gl && linux && cgo

package gl_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"

	opengl "github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/gl"
)

// A renderer makes a tensor of a buffer that it has drawn into, and reads it.
func Example() {
	drawn := make([]float32, 4)
	rendered := make(chan error)
	go func() { rendered <- renderer(drawn) }()
	if err := <-rendered; err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(drawn) // [1 2 3 4]
}

// renderer reads four elements of a buffer into drawn.
func renderer(drawn []float32) error {
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

	buffer, err := gl.Import(device, name, 16, core.Spec{DType: core.TypeFloat32, Shape: []int64{4}}, nil)
	if err != nil {
		return err
	}
	defer buffer.Close()
	host, err := core.FromSlice(drawn)
	if err != nil {
		return err
	}
	defer host.Close()
	return loop.Call(func() error { return device.Copy(context.Background(), nil, host, buffer) })
}

// Examples without an Output comment are not run, and those with one cannot be skipped.
func TestTheExampleReadsWhatWasDrawn(t *testing.T) {
	coretest.NeedDriver(t, gl.New().Probe(t.Context()).Reason, "libegl1 and libgl1-mesa-dri")
	drawn := make([]float32, 4)
	rendered := make(chan error)
	go func() { rendered <- renderer(drawn) }()
	if err := <-rendered; err != nil || !slices.Equal(drawn, []float32{1, 2, 3, 4}) {
		t.Errorf("%v, %v", drawn, err)
	}
}
