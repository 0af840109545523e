// Command send sends the tensors of a file to the process of examples/machines/receive.
package main

import (
	"context"
	"log"
	"os"

	"github.com/dlx-go/dlx/remote"
	"github.com/dlx-go/dlx/tensorfile"
)

func main() {
	ctx := context.Background()
	conn, err := remote.Dial(ctx, os.Args[1], remote.Options{Token: []byte(os.Getenv("TOKEN"))})
	check(err)
	model, err := tensorfile.Open(os.Args[2], tensorfile.OpenOptions{})
	check(err)
	for _, info := range model.Tensors() {
		tensor, err := model.Tensor(info.Name)
		check(err)
		_, err = conn.SendLabeled(ctx, tensor, info.Name)
		check(err)
		check(tensor.Close())
	}
	check(conn.WaitReceived(ctx)) // Close may lose what is on its way
	check(conn.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
