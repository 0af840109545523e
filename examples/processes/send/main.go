// Command send passes a tensor to the process of examples/processes/receive.
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
	host, err := cpu.New().Open(ctx, core.CPU)
	check(err)
	conn, err := share.Dial(ctx, socket(), share.Options{Devices: []core.Device{host}})
	check(err)
	defer conn.Close()
	frame, err := core.Empty(ctx, host, core.TypeFloat32, []int64{1080, 1920}, core.AllocOptions{Export: core.HandleMemFD})
	check(err)
	pixels, err := core.Mutable[float32](frame)
	check(err)
	pixels[0] = 42
	report, err := conn.Send(ctx, frame) // the other process gets this memory
	check(err)
	check(conn.WaitReleased(ctx)) // until the other process has closed the tensor
	fmt.Printf("sent: %v, %d bytes copied\n", report.Mechanism, report.BytesCopied)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// socket returns the path of the socket, the argument.
func socket() string {
	if len(os.Args) != 2 {
		log.Fatal("usage: send SOCKET")
	}
	return os.Args[1]
}
