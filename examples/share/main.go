// Command share moves one tensor to every device of this machine, and prints which mechanism was used.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/tensorfile"
)

func main() {
	ctx := context.Background()

	file, err := tensorfile.Open("testdata/digits.npy", tensorfile.OpenOptions{}) // mapped, not read
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	images, err := file.Tensor("digits") // read-only, like every view of it
	if err != nil {
		log.Fatal(err)
	}
	defer images.Close()

	registry := all.New() // the backends of this build
	for _, backend := range registry.Backends() {
		devices, err := backend.Devices(ctx)
		if err != nil {
			fmt.Println(err) // for example, a driver is missing
		}
		for _, found := range devices {
			if err := share(ctx, images, registry, found.ID); err != nil {
				log.Fatal(err)
			}
		}
	}
}

func share(ctx context.Context, images *core.Tensor, registry *core.Registry, id core.DeviceID) error {
	device, err := registry.Open(ctx, id)
	if err != nil {
		return err
	}
	defer device.Close()
	there, report, err := exchange.To(ctx, images, device, exchange.Options{}) // a copy only if needed
	if err != nil {
		return err
	}
	defer there.Close() // images stays open
	fmt.Printf("%v: %v, %d bytes copied\n", there.DeviceID(), report.Mechanism, report.BytesCopied)
	return nil
}
