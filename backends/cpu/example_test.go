package cpu_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
)

// A transposed view is copied into memory of the device, in row-major order.
func ExampleNew() {
	ctx := context.Background()
	d, err := cpu.New().Open(ctx, core.CPU)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()

	matrix, err := core.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer matrix.Close()
	transposed, err := matrix.Transpose()
	if err != nil {
		log.Fatal(err)
	}
	defer transposed.Close()

	dst, err := core.Empty(ctx, d, core.TypeFloat32, transposed.Shape(), core.AllocOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer dst.Close()
	if err := d.Copy(ctx, nil, dst, transposed); err != nil {
		log.Fatal(err)
	}
	values, err := core.Values[float32](dst)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(dst, values)
	// Output: float32[3 2] on cpu [1 4 2 5 3 6]
}

// Copies on a stream run one after the other, while the program goes on.
func Example_stream() {
	ctx := context.Background()
	d, err := cpu.New().Open(ctx, core.CPU)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	s, err := d.NewStream(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	src, err := core.FromSlice([]int32{1, 2, 3})
	if err != nil {
		log.Fatal(err)
	}
	defer src.Close()
	dst, err := core.Empty(ctx, d, core.TypeInt32, []int64{3}, core.AllocOptions{Stream: s})
	if err != nil {
		log.Fatal(err)
	}
	defer dst.Close()

	if err := d.Copy(ctx, s, dst, src); err != nil { // enqueued, perhaps not done
		log.Fatal(err)
	}
	values, err := core.Values[int32](dst) // waits for the copy
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(values)
	// Output: [1 2 3]
}

// Freed memory stays in the pool until it is trimmed.
func Example_pool() {
	ctx := context.Background()
	d, err := cpu.New().Open(ctx, core.CPU)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	pool := d.(core.PoolController)
	pool.SetPoolLimit(1 << 20)

	t, err := core.Empty(ctx, d, core.TypeFloat32, []int64{1000}, core.AllocOptions{})
	if err != nil {
		log.Fatal(err)
	}
	s := pool.PoolStats()
	fmt.Println(s.Requested, "bytes asked for,", s.InUse, "in use")
	t.Close()
	fmt.Println(pool.PoolStats().Cached, "cached")
	pool.TrimPool()
	fmt.Println(pool.PoolStats().Cached, "cached after the trim")
	// Output:
	// 4000 bytes asked for, 4096 in use
	// 4096 cached
	// 0 cached after the trim
}
