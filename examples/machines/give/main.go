// Command give sends a tensor to the process of examples/machines/take.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/remote"
)

func main() {
	ctx := context.Background()
	conn := must(remote.Dial(ctx, os.Args[1], remote.Options{Token: []byte(os.Getenv("TOKEN"))}))
	tensor := must(core.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
	fmt.Println(must(conn.Send(ctx, tensor)))
	check(conn.WaitReceived(ctx)) // Close may lose what is on its way
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
