// Command subscribe receives the frames of the process of examples/processes/publish.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

func main() {
	ctx := context.Background()
	listener, err := share.Listen(socket(), share.Options{})
	check(err)
	defer listener.Close()
	conn, err := listener.Accept(ctx)
	check(err)
	defer conn.Close()
	frames, err := conn.Subscribe(ctx, "frames", share.SubscribeOptions{})
	check(err)
	sum := float32(0)
	for {
		frame, err := frames.Receive(ctx)
		if errors.Is(err, io.EOF) { // the publisher has ended the ring
			break
		}
		check(err)
		pixels, err := core.Values[float32](frame.Tensor())
		check(err)
		sum += pixels[0]
		frame.Release() // the publisher may write the slot again
	}
	fmt.Println("the first pixels have the sum", sum)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// socket returns the path of the socket, the argument.
func socket() string {
	if len(os.Args) != 2 {
		log.Fatal("usage: subscribe SOCKET")
	}
	return os.Args[1]
}
