//go:build cuda && linux && cgo

package cuda_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
)

// Pinned memory is copied to the card on a stream. A timer measures the copy on the card.
func Example() {
	ctx := context.Background()
	b := cuda.New()
	if p := b.Probe(ctx); !p.Available {
		fmt.Println("no CUDA:", p.Reason)
		return
	}
	if err := measure(ctx, b); err != nil {
		fmt.Println(err)
	}
}

func measure(ctx context.Context, b core.Backend) (err error) {
	d, err := b.Open(ctx, core.DeviceID{Type: core.DeviceCUDA})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	s, err := d.NewStream(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	timer, err := cuda.NewTimer(ctx, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timer.Close()) }()
	pinned, err := core.Empty(ctx, d, core.TypeFloat32, []int64{1024, 1024}, core.AllocOptions{Type: core.DeviceCUDAHost})
	if err != nil {
		return err
	}
	defer pinned.Close()
	card, err := core.Empty(ctx, d, core.TypeFloat32, []int64{1024, 1024}, core.AllocOptions{Stream: s})
	if err != nil {
		return err
	}
	defer card.Close()
	if err := errors.Join(timer.Start(s), d.Copy(ctx, s, card, pinned), timer.Stop(s)); err != nil {
		return err
	}
	took, err := timer.Elapsed(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%.1f GB/s\n", float64(card.NumBytes())/float64(took.Nanoseconds()))
	return nil
}
