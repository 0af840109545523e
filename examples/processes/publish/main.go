// Command publish passes frames to the process of examples/processes/subscribe, through a ring of slots.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

func main() {
	ctx := context.Background()
	conn, err := share.Dial(ctx, socket(), share.Options{})
	check(err)
	defer conn.Close()
	frames, err := conn.Publish(ctx, "frames", share.Ring{Slots: 4, Shape: []int64{1080, 1920}, DType: core.TypeFloat32, Mode: share.Queue})
	check(err)
	defer frames.Close()
	notice := time.AfterFunc(time.Second, func() { log.Print("nobody has subscribed to the ring yet") })
	check(frames.WaitReaders(ctx, 1)) // a frame that nobody has subscribed to is lost
	notice.Stop()
	for n := range 100 {
		frame, err := frames.Loan(ctx) // waits until the subscriber has released a slot
		check(err)
		pixels, err := core.Mutable[float32](frame)
		check(err)
		pixels[0] = float32(n)
		_, err = frames.Send(ctx, frame) // the frame belongs to the ring again
		check(err)
	}
	check(frames.WaitReleased(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// socket returns the path of the socket, the argument.
func socket() string {
	if len(os.Args) != 2 {
		log.Fatal("usage: publish SOCKET")
	}
	return os.Args[1]
}
