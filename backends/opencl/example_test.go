//go:build opencl && linux && cgo

package opencl_test

import (
	"context"
	"fmt"

	"github.com/dlx-go/dlx/backends/opencl"
	"github.com/dlx-go/dlx/core"
)

// Elements go to the device, and a cl_mem of them to a kernel of the program's own.
func Example() {
	ctx := context.Background()
	b := opencl.New()
	if p := b.Probe(ctx); !p.Available {
		fmt.Println("no OpenCL:", p.Reason)
		return
	}
	d, err := b.Open(ctx, core.DeviceID{Type: core.DeviceOpenCL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = d.Close() }()
	host, err := core.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer host.Close()
	t, err := core.Empty(ctx, d, core.TypeFloat32, host.Shape(), core.AllocOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	if err := d.Copy(ctx, nil, t, host); err != nil {
		fmt.Println(err)
		return
	}
	mem, offset, err := opencl.MemOf(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("clSetKernelArg(kernel, 0, %#x); clSetKernelArg(kernel, 1, %d)\n", mem, offset)
}
