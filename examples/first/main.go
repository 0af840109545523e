// Command first is the first program of README.md. It moves a slice to a device and reads it there.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

func main() {
	ctx := context.Background()
	device, err := all.New().Open(ctx, core.CPU) // or core.DeviceID{Type: core.DeviceVulkan}
	check(err)
	defer device.Close()
	x, err := core.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3) // two rows of three
	check(err)
	defer x.Close()
	y, report, err := exchange.To(ctx, x, device, exchange.Options{}) // copies only if it must
	check(err)
	defer y.Close()
	values, err := core.ToSlice[float32](ctx, y) // waits until all work on y is done
	check(err)
	fmt.Println(report.Mechanism, values)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
