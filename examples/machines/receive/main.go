// Command receive receives the tensors of a model from the process of examples/machines/send, and writes them to a file.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	for err == nil {
		var tensor *core.Tensor
		var report remote.Report
		if tensor, report, err = conn.Receive(ctx, host); err == nil {
			model = append(model, tensorfile.Named{Name: report.Label, Tensor: tensor})
		}
	}
	if !errors.Is(err, io.EOF) { // the sender has closed the connection
		check(err)
	}
	check(tensorfile.WriteFile(ctx, os.Args[2], model, tensorfile.WriteOptions{}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
