// Command take receives a tensor from the process of examples/machines/give, and prints it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/remote"
)

func main() {
	ctx := context.Background()
	host := must(cpu.New().Open(ctx, core.CPU)) // or a device of backends/all
	listener := must(remote.Listen(os.Args[1], remote.Options{Token: []byte(os.Getenv("TOKEN"))}))
	fmt.Println(listener.Addr())
	for tensor, err := range must(listener.Accept(ctx)).All(ctx, host) {
		check(err)
		fmt.Println(must(core.Values[float32](tensor.Tensor)), tensor.Report)
	}
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
