// Command receive receives a tensor of the process of examples/processes/send.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

func main() {
	ctx := context.Background()
	host, err := cpu.New().Open(ctx, core.CPU) // or a device of backends/all
	check(err)
	listener, err := share.Listen(socket(), share.Options{Devices: []core.Device{host}})
	check(err)
	defer listener.Close()
	conn, err := listener.Accept(ctx)
	check(err)
	defer conn.Close()
	frame, report, err := conn.Receive(ctx, host)
	check(err)
	pixels, err := core.Values[float32](frame)
	check(err)
	fmt.Printf("received: %v, %d bytes copied: %v begins with %v\n", report.Mechanism, report.BytesCopied, frame, pixels[0])
	check(frame.Close()) // the sender may use the memory again
	<-conn.Done()        // until the sender has ended
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// socket returns the path of the socket, the argument.
func socket() string {
	if len(os.Args) != 2 {
		log.Fatal("usage: receive SOCKET")
	}
	return os.Args[1]
}
