// Command fetch takes tensors from examples/machines/offer on another machine.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/remote"
	"github.com/dlx-go/dlx/tensorfile"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: fetch ADDRESS TOKEN-FILE GLOB")
	}
	ctx := context.Background()
	token, err := os.ReadFile(os.Args[2])
	check(err)
	device, err := all.New().Open(ctx, core.CPU) // or core.DeviceID{Type: core.DeviceVulkan}
	check(err)
	defer device.Close()
	conn, err := remote.Dial(ctx, os.Args[1], remote.Options{Token: bytes.TrimSpace(token)})
	check(err)
	defer conn.Close()
	offers, err := conn.List(ctx)
	check(err)
	source, err := remote.NewSource(conn, offers)
	check(err)
	source.Verify = true // compare with checksums of the other side
	model, err := tensorfile.LoadFrom(ctx, source, device, tensorfile.LoadOptions{Only: os.Args[3:]})
	check(err)
	defer model.Close()
	for _, name := range model.Names {
		fmt.Println(name, model.Tensors[name])
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
