package cuda

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
)

// New returns the backend "cuda". It serves every device that the driver lists, in
// its order (CUDA_VISIBLE_DEVICES chooses). A device may be opened several times; all
// use its primary context, as the runtime API and most libraries do, with a pool
// and streams of their own. The library, libcuda.so.1, is opened by the first call of a method;
// DLX_CUDA_LIBRARY names another one.
func New() core.Backend { return newBackend() }

// Timer measures how long work takes on the card, by two events with times. It is
// safe for concurrent use.
type Timer struct{ timer cudalike.Timer }

// NewTimer makes a timer for streams of d, which the caller closes. It fails with
// core.ErrDevice if d is no device of CUDA, and with core.ErrClosed.
func NewTimer(ctx context.Context, d core.Device) (*Timer, error) {
	t := new(Timer)
	if err := openTimer(ctx, d, &t.timer); err != nil {
		return nil, err
	}
	return t, nil
}

// Start has the time begin when the work enqueued on s before is done. It fails with
// core.ErrDevice if s is nil or of another device, with core.ErrNotSupported while s is
// captured, and with core.ErrClosed; so does Stop.
func (t *Timer) Start(s core.Stream) error { return t.timer.Start(s) }

// Stop has the time end when the work enqueued on s before is done.
func (t *Timer) Stop(s core.Stream) error { return t.timer.Stop(s) }

// Elapsed waits for both ends, or until ctx ends, whose error it returns then, and
// returns the time between them, with a resolution of about half a microsecond (driver
// API, cuEventElapsedTime). It fails with core.ErrInvalid unless Start and Stop came
// before, and with core.ErrClosed.
func (t *Timer) Elapsed(ctx context.Context) (time.Duration, error) { return t.timer.Elapsed(ctx) }

// Close gives the events back. A second Close does nothing.
func (t *Timer) Close() error { return t.timer.Close() }
