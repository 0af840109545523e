package parts

import (
	"bytes"
	"context"
	"fmt"
	"runtime"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// Crowd makes n tensors of fresh slices of Go, of size bytes each. It closes every
// other one, so that the collector takes slices that lie among those in use, moves the
// others to d, and copies them back. It fails where bytes are lost.
func Crowd(ctx context.Context, d core.Device, n int, size int64, seed uint64) error {
	tensors, content := make([]*core.Tensor, n), make([][]byte, n)
	for i := range tensors {
		content[i] = Pattern(size, seed+uint64(i))
		t, err := Numbers(content[i], []int64{size / 4})
		if err != nil {
			return err
		}
		defer t.Close()
		tensors[i] = t
	}
	for i := 0; i < n; i += 2 {
		if err := tensors[i].Close(); err != nil {
			return err
		}
	}
	runtime.GC()
	for i := 1; i < n; i += 2 {
		if err := thereAndBack(ctx, d, tensors[i], content[i]); err != nil {
			return fmt.Errorf("tensor %d of %d: %w", i, n, err)
		}
	}
	return nil
}

// thereAndBack moves t to d and copies it back.
func thereAndBack(ctx context.Context, d core.Device, t *core.Tensor, want []byte) error {
	x, _, err := exchange.To(ctx, t, d, exchange.Options{})
	if err != nil {
		return err
	}
	defer x.Close()
	back, err := Numbers(make([]byte, len(want)), t.Shape())
	if err != nil {
		return err
	}
	defer back.Close()
	if err := d.Copy(ctx, nil, back, x); err != nil {
		return err
	}
	got, err := Load(ctx, back)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("WRONG BYTES: %x, must be %x", got, want)
	}
	return err
}
