package exchange_test

import (
	"context"
	"fmt"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
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
	fmt.Print(route.Explain())
	// Output:
	// cpu -> cpu: direct, 16 bytes copied
	//   1. cpu copies from cpu (16 bytes)
}
