// Command receive receives the tensors of a model from the process of examples/machines/send, and writes them to a file.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/remote"
	"github.com/dlx-go/dlx/tensorfile"
)

func main() {
	ctx := context.Background()
	host, err := cpu.New().Open(ctx, core.CPU) // or a device of backends/all
	check(err)
	listener, err := remote.Listen(os.Args[1], remote.Options{Token: []byte(os.Getenv("TOKEN"))})
	check(err)
	fmt.Println(listener.Addr())
	conn, err := listener.Accept(ctx)
	check(err)
	var model []tensorfile.Named
	for got, err := range conn.All(ctx, host) { // until the sender closes the connection
		check(err)
		model = append(model, tensorfile.Named{Name: got.Label, Tensor: got.Tensor})
	}
	check(tensorfile.WriteFile(ctx, os.Args[2], model, tensorfile.WriteOptions{}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
