package all_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
)

func ExampleNew() {
	ctx := context.Background()
	id, err := core.ParseDevice("cpu")
	if err != nil {
		log.Fatal(err)
	}
	d, err := all.New().Open(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	fmt.Println(d.ID(), d.Properties().Alignment)
	// Output: cpu 256
}
