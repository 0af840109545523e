//go:build vulkan && linux && cgo

// Command renderer hands a buffer of a Vulkan renderer to CUDA and back. The renderer makes its own VkInstance, VkDevice,
// VkQueue, VkBuffer and timeline semaphore, and CUDA's work is that of another library, on a CUstream of its own. The buffer
// is never copied, and nobody waits for the device on the host where the drivers share semaphores.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/backends/vulkan"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

const pixels = 4096

// What the renderer draws, and what the kernel writes over the first half of it.
const drawn, computed = 0xff00ff00, 0xff0000ff

func main() {
	if err := run(context.Background(), all.New()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, registry *core.Registry) error {
	r, err := newRenderer(pixels)
	if err != nil {
		return err
	}
	defer r.close()
	return share(ctx, registry, r)
}

func share(ctx context.Context, registry *core.Registry, r *renderer) error {
	// The renderer's device, buffer and timeline, as dlx knows them. All of them stay the renderer's.
	device, err := vulkan.Wrap(ctx, vulkan.Handles{
		Instance: number(r.instance), PhysicalDevice: number(r.physical), Device: number(r.device),
		Queue: number(r.queue), Family: int(r.family), Extensions: r.extensions, Lock: &r.lock,
	})
	if err != nil {
		return err
	}
	defer device.Close()
	timeline, err := vulkan.ImportTimeline(device, uint64(number(r.timeline)))
	if err != nil {
		return err
	}
	defer timeline.Close()
	picture, err := vulkan.ImportBuffer(device, vulkan.Buffer{
		Buffer: uint64(number(r.buffer)), Size: r.size, Usage: bufferUsage,
		Memory: uint64(number(r.memory)), MemoryOffset: r.offset, MemorySize: r.memorySize, MemoryType: r.memoryType, ExportTypes: exportTypes,
	}, core.Spec{DType: core.TypeUint32, Shape: []int64{pixels}}, core.FreeFunc(func() {
		fmt.Println("the renderer may destroy its buffer")
	}))
	if err != nil {
		return err
	}
	defer picture.Close()
	onVulkan, err := device.NewStream(ctx)
	if err != nil {
		return err
	}
	defer onVulkan.Close()

	// The other library, and its stream as dlx knows it.
	cuda, err := openCUDA(ctx, registry, device.Properties())
	if err != nil {
		return err
	}
	defer cuda.Close()
	kernels, err := newKernels(cuda.ID().Index)
	if err != nil {
		return err
	}
	defer kernels.close()
	onCUDA, err := cuda.(core.StreamImporter).ImportStream(ctx, kernels.stream)
	if err != nil {
		return err
	}
	defer onCUDA.Close()

	// The renderer draws, and sets its timeline to 1. CUDA's stream waits for that: by way of onVulkan.
	if err := r.draw(drawn, 1); err != nil {
		return err
	}
	if err := timeline.WaitOn(onVulkan, 1); err != nil {
		return err
	}
	there, report, err := exchange.To(ctx, picture, cuda, exchange.Options{Copy: exchange.Never, SourceStream: onVulkan, Stream: onCUDA})
	if err != nil {
		return err
	}
	defer there.Close()
	fmt.Printf("%v to %v: %v, %d bytes copied, order by %v\n", device.ID(), cuda.ID(), report.Mechanism, report.BytesCopied, report.Wait)

	// The other library writes to the renderer's buffer.
	address, err := there.Address()
	if err != nil {
		return err
	}
	if err := kernels.fill(address, computed, pixels/2); err != nil {
		return err
	}

	// The way back: onVulkan waits for CUDA's stream, and then sets the renderer's timeline to 2.
	back, report, err := exchange.To(ctx, there, device, exchange.Options{Copy: exchange.Never, SourceStream: onCUDA, Stream: onVulkan})
	if err != nil {
		return err
	}
	defer back.Close()
	fmt.Printf("%v to %v: %v, %d bytes copied, order by %v\n", cuda.ID(), device.ID(), report.Mechanism, report.BytesCopied, report.Wait)
	if err := timeline.Signal(onVulkan, 2); err != nil {
		return err
	}
	seen, err := r.read(2) // a command that waits for 2
	if err != nil {
		return err
	}
	for i, x := range seen {
		want := uint32(drawn)
		if i < pixels/2 {
			want = computed
		}
		if x != want {
			return fmt.Errorf("pixel %d is %#x, want %#x", i, x, want)
		}
	}
	fmt.Println("the renderer reads what the kernel wrote")
	return nil
}

// openCUDA opens the CUDA device that is the card of the renderer.
func openCUDA(ctx context.Context, registry *core.Registry, card core.Properties) (core.Device, error) {
	b, err := registry.Backend("cuda")
	if err != nil {
		return nil, err
	}
	list, err := b.Devices(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if core.SamePhysicalDevice(p, card) {
			return b.Open(ctx, p.ID)
		}
	}
	return nil, fmt.Errorf("no device of CUDA is the card %v, with UUID %v", card.Name, card.UUID)
}
