package stream_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

func ExampleQueue() {
	q := stream.NewQueue(nil)
	defer q.Close()
	for i := range 3 {
		_ = q.Enqueue(func() error { fmt.Println("step", i); return nil })
	}
	_ = q.Enqueue(func() error { return errors.New("step 3 failed") })
	fmt.Println(q.Synchronize(context.Background()))
	// Output:
	// step 0
	// step 1
	// step 2
	// step 3 failed
}

// Two queues work on one tensor; its buffer keeps them in order.
func ExampleSubmit() {
	ctx := context.Background()
	values := []float32{1, 2, 3}
	x, _ := core.FromSlice(values)
	defer x.Close()
	double, add := stream.NewQueue(nil), stream.NewQueue(nil)
	defer double.Close()
	defer add.Close()

	tensors := []*core.Tensor{x}
	_ = stream.Submit(ctx, double, tensors, tensors, func() error {
		return double.Enqueue(func() error {
			for i := range values {
				values[i] *= 2
			}
			return nil
		})
	})
	_ = stream.Submit(ctx, add, tensors, tensors, func() error {
		return add.Enqueue(func() error {
			for i := range values {
				values[i]++
			}
			return nil
		})
	})
	_ = x.WaitReady(ctx)
	fmt.Println(values)
	// Output: [3 5 7]
}

func ExampleTimeline() {
	l := stream.NewTimeline()
	defer l.Close()
	q := stream.NewQueue(nil)
	defer q.Close()
	_ = l.WaitOn(q, 1) // what follows waits for the host
	_ = q.Enqueue(func() error { fmt.Println("after the host's 1"); return nil })
	_ = l.Signal(q, 2)

	fmt.Println("the host signals 1")
	_ = l.Set(1)
	_ = l.Wait(context.Background(), 2)
	fmt.Println(l.Set(2))
	// Output:
	// the host signals 1
	// after the host's 1
	// stream: Set: invalid argument: value 2 must be larger than 2: a timeline only grows
}

func ExampleHandoff() {
	ctx := context.Background()
	x, _ := core.FromSlice([]int8{1})
	defer x.Close()
	producer, consumer := stream.NewQueue(nil), stream.NewQueue(nil)
	defer consumer.Close()
	defer producer.Close()
	written := stream.NewEvent() // work that is still to come
	_ = producer.Wait(written)

	how, err := stream.Handoff(ctx, x, producer, consumer)
	fmt.Println(how, err)
	written.Complete(nil)
	// Output: stream_wait <nil>
}

func ExampleFromDLPack() {
	n, _ := stream.FromDLPack(core.DeviceCUDA, 2)
	fmt.Println(n.Kind)
	_, err := stream.FromDLPack(core.DeviceCUDA, 0)
	fmt.Println(err)
	// Output:
	// per_thread_default
	// dlpack: FromDLPack: invalid argument: stream 0 on cuda: ambiguous: pass 1 for the legacy default stream or 2 for the thread's
}
