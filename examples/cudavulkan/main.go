// Command cudavulkan shares one buffer between CUDA and Vulkan. CUDA fills it, Vulkan writes to it, and CUDA
// reads it back. The two APIs work in order, and the buffer is never copied from one to the other.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

const rows, columns = 4, 1024

func main() {
	if err := share(context.Background(), all.New()); err != nil {
		log.Fatal(err)
	}
}

func share(ctx context.Context, registry *core.Registry) error {
	cuda, err := registry.Open(ctx, core.DeviceID{Type: core.DeviceCUDA})
	if err != nil {
		return err
	}
	defer cuda.Close()
	vulkan, err := openVulkan(ctx, registry, cuda.Properties().UUID)
	if err != nil {
		return err
	}
	defer vulkan.Close()
	onCUDA, err := cuda.NewStream(ctx)
	if err != nil {
		return err
	}
	defer onCUDA.Close()
	onVulkan, err := vulkan.NewStream(ctx)
	if err != nil {
		return err
	}
	defer onVulkan.Close()

	// Fill on CUDA. Memory that Vulkan can open must be asked for: AllocFor knows how.
	image, err := core.Empty(ctx, cuda, core.TypeFloat32, []int64{rows, columns}, exchange.AllocFor(cuda, vulkan))
	if err != nil {
		return err
	}
	defer image.Close()
	numbers := make([]float32, rows*columns)
	for i := range numbers {
		numbers[i] = float32(i)
	}
	filling, err := core.FromSlice(numbers, rows, columns)
	if err != nil {
		return err
	}
	defer filling.Close()
	if err := cuda.Copy(ctx, onCUDA, image, filling); err != nil { // enqueued, not done
		return err
	}

	// Use on Vulkan: the same memory, and a stream that waits for CUDA's.
	there, report, err := exchange.To(ctx, image, vulkan, exchange.Options{Copy: exchange.Never, SourceStream: onCUDA, Stream: onVulkan})
	if err != nil {
		return err
	}
	defer there.Close()
	fmt.Printf("%v to %v: %v, %d bytes copied, order by %v\n", cuda.ID(), vulkan.ID(), report.Mechanism, report.BytesCopied, report.Wait)
	first, err := there.Slice(0, 0, 1, 1)
	if err != nil {
		return err
	}
	defer first.Close()
	last, err := there.Slice(0, rows-1, rows, 1)
	if err != nil {
		return err
	}
	defer last.Close()
	if err := vulkan.Copy(ctx, onVulkan, first, last); err != nil { // a command of Vulkan: the last row into the first
		return err
	}

	// Read back by CUDA, which waits for Vulkan's command.
	back := make([]float32, rows*columns)
	result, err := core.FromSlice(back, rows, columns)
	if err != nil {
		return err
	}
	defer result.Close()
	if err := cuda.Copy(ctx, nil, result, image); err != nil {
		return err
	}
	for i, x := range back {
		want := float32(i)
		if i < columns {
			want += (rows - 1) * columns
		}
		if x != want {
			return fmt.Errorf("element %d is %v, want %v", i, x, want)
		}
	}
	fmt.Println("CUDA reads what Vulkan wrote")
	return nil
}

// openVulkan opens the Vulkan device that is the card with a UUID.
func openVulkan(ctx context.Context, registry *core.Registry, card core.UUID) (core.Device, error) {
	b, err := registry.Backend("vulkan")
	if err != nil {
		return nil, err
	}
	list, err := b.Devices(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if p.UUID == card {
			return b.Open(ctx, p.ID)
		}
	}
	return nil, fmt.Errorf("no device of Vulkan is the card with UUID %v", card)
}
