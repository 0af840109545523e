package cmdqueue

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
)

// Convert does what ConvertOn does: it checks the arguments, keeps the order of work, and waits if the stream is nil. enqueue
// adds the items that convert on the device. The Mu of q is held.
func (d *Device[Q, O]) Convert(ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling, enqueue func(q Q, dst, src O) error) error {
	q, p, todo, err := devicebase.BeginConversion[Q](ctx, &d.Device, s, dst, src, scaling, d.api.OperandOf)
	if err != nil || !todo {
		return err
	}
	defer d.Drop()
	return d.withStream(q, func(q Q, here bool) error {
		return d.submit(ctx, q, here, []*core.Tensor{dst}, []*core.Tensor{src}, conversion(func() error { return enqueue(q, p.Dst.Object, p.Src.Object) }))
	})
}

// conversion adds the items of a conversion.
type conversion func() error

func (c conversion) add() error { return c() }
