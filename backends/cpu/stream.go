package cpu

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// NewStream returns an ordered queue whose work runs in a goroutine.
func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	q, err := d.NewQueue(ctx)
	if err != nil { // not a nil *devicebase.Queue in an interface
		return nil, err
	}
	return q, nil
}
