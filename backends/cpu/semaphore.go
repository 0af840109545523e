package cpu

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

var _ core.SemaphoreCreator = (*device)(nil)

// NewSemaphore returns a [stream.Timeline], which cannot be exported. It fails with ErrNotSupported if t is
// not 0, and with ErrClosed.
func (d *device) NewSemaphore(ctx context.Context, t core.HandleType) (core.Semaphore, error) {
	if err := d.Enter(ctx, "NewSemaphore"); err != nil {
		return nil, err
	}
	if t != 0 {
		return nil, core.Errorf(core.ErrNotSupported, "cpu", "NewSemaphore", "a semaphore of the host cannot be exported as %v", t)
	}
	return stream.NewTimeline(), nil
}
