package coretest_test

import (
	"context"
	"fmt"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Work is late until somebody waits for it, and fails where a test says so.
func ExampleBackend() {
	ctx := context.Background()
	b := coretest.NewBackend(coretest.Options{})
	d, _ := b.Open(ctx, core.DeviceID{Type: core.DeviceExt, Index: 0})
	defer d.Close()
	s, _ := d.NewStream(ctx)
	defer s.Close()

	_ = s.(*coretest.Stream).Enqueue(func() error { fmt.Println("the work runs"); return nil })
	e, _ := s.Record()
	done, _ := e.Done()
	fmt.Println("done:", done)
	fmt.Println(e.Wait(ctx))

	fired := b.Fail("Alloc", 1, core.ErrOutOfMemory)
	_, err := d.Alloc(ctx, 64, core.AllocOptions{})
	fmt.Println(err, fired())
	// Output:
	// done: false
	// the work runs
	// <nil>
	// ext_dev: Alloc: out of memory: the test made this call fail true
}

func ExampleCopyNaive() {
	rows := []int8{1, 2, 3, 4, 5, 6}
	columns := make([]int8, 6)
	src, _ := core.FromSlice(rows, 2, 3)
	dst, _ := core.FromSlice(columns, 3, 2)
	turned, _ := src.Transpose()
	for _, t := range []*core.Tensor{src, dst, turned} {
		defer t.Close()
	}
	fmt.Println(coretest.CopyNaive(dst, turned), columns)
	// Output: <nil> [1 4 2 5 3 6]
}
