package exchange_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

func ExampleTo() {
	ctx := context.Background()
	host, err := all.New().Open(ctx, core.CPU)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer host.Close()
	values := []float32{1, 2, 3, 4}
	x, _ := core.FromSlice(values, 2, 2)
	defer x.Close()

	y, report, err := exchange.To(ctx, x, host, exchange.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer y.Close()
	values[3] = 40 // the memory is the same
	elements, _ := core.Values[float32](y)
	fmt.Println(report.Mechanism, report.BytesCopied, elements)
	// Output: alias 0 [1 2 3 40]
}

// The weights of a model move together. Either all of them arrive, or none.
func ExampleToAll() {
	ctx := context.Background()
	host, err := all.New().Open(ctx, core.CPU)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	var weights []*core.Tensor
	for layer := range 3 {
		x, err := core.FromSlice([]float32{float32(layer), 0.5}, 2)
		if err != nil {
			log.Fatal(err)
		}
		defer x.Close()
		weights = append(weights, x)
	}

	moved, _, err := exchange.ToAll(ctx, weights, host, exchange.Options{Copy: exchange.Always})
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range moved {
		values, err := core.ToSlice[float32](ctx, x)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(values)
		x.Close()
	}
	// Output:
	// [0 0.5]
	// [1 0.5]
	// [2 0.5]
}

func ExamplePlan() {
	host, err := all.New().Open(context.Background(), core.CPU)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer host.Close()
	x, _ := core.FromSlice([]float32{1, 2, 3, 4})
	defer x.Close()
	route, err := exchange.Plan(x, host, exchange.Options{Copy: exchange.Always})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(route.String())
	// Output:
	// cpu -> cpu: direct, 16 bytes copied
	//   1. cpu copies from cpu (16 bytes)
}

// A copy may still be running when To returns. Reading the elements waits for it.
func ExampleTo_waiting() {
	ctx := context.Background()
	host, err := all.New().Open(ctx, core.CPU)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	x, err := core.FromSlice([]float32{1, 2, 3, 4})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()

	y, _, err := exchange.To(ctx, x, host, exchange.Options{Copy: exchange.Always})
	if err != nil {
		log.Fatal(err)
	}
	defer y.Close()
	values, err := core.ToSlice[float32](ctx, y) // ends with ctx, too
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(values)
	// Output: [1 2 3 4]
}

// With Never, the result is the memory of the source: writes to one are seen in the other.
func ExampleTo_writeThrough() {
	ctx := context.Background()
	host, err := all.New().Open(ctx, core.CPU)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	pixels := []uint16{1, 2, 3}
	x, err := core.FromSlice(pixels)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	y, _, err := exchange.To(ctx, x, host, exchange.Options{Copy: exchange.Never}) // fails if there is no such way
	if err != nil {
		log.Fatal(err)
	}
	defer y.Close()

	if err := core.Set[uint16](y, 20, 1); err != nil { // waits for all work on the memory
		log.Fatal(err)
	}
	fmt.Println(pixels)
	// Output: [1 20 3]
}

// Memory that goes on to a second device is allocated so that the second can share it.
func ExampleAllocFor() {
	ctx := context.Background()
	registry := all.New()
	first, err := registry.Open(ctx, core.CPU) // or vulkan:0
	if err != nil {
		log.Fatal(err)
	}
	defer first.Close()
	second, err := registry.Open(ctx, core.CPU) // or cuda:0
	if err != nil {
		log.Fatal(err)
	}
	defer second.Close()

	x, err := core.Empty(ctx, first, core.TypeFloat32, []int64{480, 640}, exchange.AllocFor(first, second))
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	y, report, err := exchange.To(ctx, x, second, exchange.Options{Copy: exchange.Never})
	if err != nil {
		log.Fatal(err)
	}
	defer y.Close()
	fmt.Println(report.BytesCopied, "bytes copied")
	// Output: 0 bytes copied
}

// Submit orders work of one's own: it waits for what is unfinished on the tensors, and
// whoever uses them later waits for it.
func Example_ownWork() {
	ctx := context.Background()
	host, err := all.New().Open(ctx, core.CPU)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	x, err := core.FromSlice([]float32{1, 2, 3})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	queue := stream.NewQueue(host) // a kernel would run on the stream of its device
	defer queue.Close()

	double := func() error {
		values, err := core.MutableWithoutWaiting[float32](x) // this is the work that others wait for
		for i := range values {
			values[i] *= 2
		}
		return err
	}
	writes := []*core.Tensor{x}
	err = stream.Submit(ctx, queue, writes, nil, func() error { return queue.Enqueue(double) })
	if err != nil {
		log.Fatal(err)
	}
	values, err := core.Values[float32](x)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(values)
	// Output: [2 4 6]
}

// Work that a library enqueued is made known by its event.
func Example_workOfALibrary() {
	x, err := core.FromSlice([]float32{0})
	if err != nil {
		log.Fatal(err)
	}
	defer x.Close()
	memory, err := x.Buffer()
	if err != nil {
		log.Fatal(err)
	}

	written := stream.NewEvent() // or that of a device: see Stream.Record
	memory.Wrote(written)        // Used, if the library only reads
	go func() {
		values, err := core.MutableWithoutWaiting[float32](x)
		if err == nil {
			values[0] = 42
		}
		written.Complete(err)
	}()

	values, err := core.Values[float32](x) // waits for the event
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(values)
	// Output: [42]
}
