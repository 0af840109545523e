// Command first is the first program of README.md: it moves a slice to a device and back.
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
	registry := all.New() // the backends of this build
	host, err := registry.Open(ctx, core.CPU)
	check(err)
	defer host.Close()
	device, err := registry.Open(ctx, core.CPU) // or core.DeviceID{Type: core.DeviceVulkan}
	check(err)
	defer device.Close()

	x, err := core.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3) // two rows of three
	check(err)
	defer x.Close()
	there, report, err := exchange.To(ctx, x, device, exchange.Options{}) // a copy only if needed
	check(err)
	defer there.Close()
	back, _, err := exchange.To(ctx, there, host, exchange.Options{})
	check(err)
	defer back.Close()

	values, err := core.ToSlice[float32](ctx, back) // waits until the bytes are there
	check(err)
	fmt.Println(report.Mechanism, values)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
