// Command take takes tensors from the process of examples/machines/give, and compares them with its checksums.
package main

import (
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
	ctx := context.Background()
	device := must(all.New().Open(ctx, core.CPU)) // or core.DeviceID{Type: core.DeviceVulkan}
	conn := must(remote.Dial(ctx, os.Args[1], remote.Options{Token: []byte(os.Getenv("TOKEN"))}))
	source := must(remote.NewSource(conn, must(conn.List(ctx))))
	source.Verify = true // compare with the checksums of the other side
	model := must(tensorfile.LoadFrom(ctx, source, device, tensorfile.LoadOptions{Only: os.Args[2:]}))
	for _, name := range model.Names {
		fmt.Println(name, model.Tensors[name])
	}
	check(conn.Close())
}

func must[T any](x T, err error) T {
	check(err)
	return x
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
