// Command give offers the tensors of a file to the processes of examples/machines/take.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/dlx-go/dlx/remote"
	"github.com/dlx-go/dlx/tensorfile"
)

func main() {
	ctx := context.Background()
	listener := must(remote.Listen(os.Args[1], remote.Options{Token: []byte(os.Getenv("TOKEN"))}))
	model := must(tensorfile.Open(os.Args[2], tensorfile.OpenOptions{}))
	for _, info := range model.Tensors() {
		tensor := must(model.Tensor(info.Name))
		must(listener.Offer(tensor, remote.OfferOptions{Name: info.Name}))
		check(tensor.Close()) // the offer keeps the memory
	}
	fmt.Println(listener.Addr())
	check(listener.Serve(ctx)) // until Ctrl-C
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
