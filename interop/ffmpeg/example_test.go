//go:build cgo && vulkan

package ffmpeg

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/asticode/go-astiav"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// A clip is decoded, its planes move to the Vulkan device and back, and the bytes are those that were encoded.
func ExamplePlanes() {
	ctx := context.Background()
	card, err := all.New().Open(ctx, core.DeviceID{Type: core.DeviceVulkan})
	if err != nil {
		log.Fatal(err)
	}
	defer card.Close()
	host, err := all.New().Open(ctx, core.CPU)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()

	err = decoded(func(number int, f *astiav.Frame) error {
		planes, err := Planes(f)
		if err != nil {
			return err
		}
		defer closeAll(planes)
		f.Unref() // the tensors keep the memory
		for i, plane := range planes {
			there, _, err := exchange.To(ctx, plane, card, exchange.Options{Copy: exchange.Always})
			if err != nil {
				return err
			}
			defer there.Close()
			back, _, err := exchange.To(ctx, there, host, exchange.Options{})
			if err != nil {
				return err
			}
			defer back.Close()
			values, err := core.ToSlice[uint8](ctx, back)
			if err != nil {
				return err
			}
			fmt.Println("frame", number, "plane", i, plane.Shape(), bytes.Equal(values, clipPlane(number, i)))
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// frame 0 plane 0 [46 70] true
	// frame 0 plane 1 [23 35] true
	// frame 0 plane 2 [23 35] true
	// frame 1 plane 0 [46 70] true
	// frame 1 plane 1 [23 35] true
	// frame 1 plane 2 [23 35] true
	// frame 2 plane 0 [46 70] true
	// frame 2 plane 1 [23 35] true
	// frame 2 plane 2 [23 35] true
	// frame 3 plane 0 [46 70] true
	// frame 3 plane 1 [23 35] true
	// frame 3 plane 2 [23 35] true
}
