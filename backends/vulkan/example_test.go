//go:build vulkan && linux && cgo

package vulkan_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dlx-go/dlx/backends/vulkan"
	"github.com/dlx-go/dlx/core"
)

// A renderer opens dlx over its own VkDevice and hands on what a tensor lies in.
func ExampleWrap() {
	var renderer vulkan.Handles // filled by whoever made the VkDevice
	d, err := vulkan.Wrap(context.Background(), renderer)
	if err != nil {
		log.Print(err)
		return
	}
	defer func() { _ = d.Close() }()
	t, err := core.Empty(context.Background(), d, core.TypeFloat32, []int64{480, 640}, core.AllocOptions{})
	if err != nil {
		log.Print(err)
		return
	}
	defer func() { _ = t.Close() }()
	b, offset, err := vulkan.BufferOf(t)
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Printf("VkBuffer %#x, %d bytes from its start\n", b.Buffer, offset)
}

// A renderer lends its VkBuffer to dlx, which can hand it to CUDA from there.
func ExampleImportBuffer() {
	var device core.Device    // of Wrap
	var picture vulkan.Buffer // filled by whoever made the VkBuffer
	destroy := core.FreeFunc(func() { fmt.Println("the VkBuffer may be destroyed") })
	t, err := vulkan.ImportBuffer(device, picture, core.Spec{DType: core.TypeUint8, Shape: []int64{480, 640, 4}}, destroy)
	if err != nil {
		log.Print(err)
		return
	}
	defer func() { _ = t.Close() }()
	fmt.Println(t)
}

// Where the driver is missing, Probe says so; nothing else has to be asked first.
func ExampleNew() {
	b := vulkan.New(vulkan.Options{})
	if p := b.Probe(context.Background()); !p.Available {
		fmt.Println("no Vulkan:", p.Reason)
		return
	}
	devices, err := b.Devices(context.Background())
	if err != nil {
		log.Print(err)
		return
	}
	for _, p := range devices {
		fmt.Println(p.ID, p.Name, p.Driver, p.UUID, p.Capabilities)
	}
}
