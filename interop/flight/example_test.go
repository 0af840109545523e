package flight_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/interop/flight"
)

// A server offers a tensor, and a client gets two of its rows. A program with PyArrow gets them with the ticket
// {"name": "weights", "rows": [1, 3]}.
func Example() {
	ctx := context.Background()
	host, err := cpu.New().Open(ctx, core.CPU)
	check(err)
	defer host.Close()
	server, err := flight.NewServer(flight.ServerOptions{Insecure: true}) // on a loopback address only
	check(err)
	defer server.Close()
	weights, err := core.FromSlice([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2)
	check(err)
	defer weights.Close()
	check(server.Offer("weights", weights))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() { _ = server.Serve(listener) }() // until Close

	client, err := flight.NewClient(listener.Addr().String(), flight.ClientOptions{Insecure: true})
	check(err)
	defer client.Close()
	rows, report, err := client.Get(ctx, "weights", host, 1, 3)
	check(err)
	defer rows.Close()
	values, err := core.Values[float32](rows)
	check(err)
	fmt.Println(rows.Layout().Shape(), values, report.Batches, "batch")
	// Output: [2 2] [3 4 5 6] 1 batch
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
