package cuda

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
)

// New returns the backend "cuda". It has the devices that the driver lists, in the driver's order; the environment
// variable CUDA_VISIBLE_DEVICES selects them. A device can be opened several times. Each opened device has a pool
// and streams of its own; all use the device's primary context, as the runtime API and most libraries do. The first
// call of a method opens the library libcuda.so.1, or the one that the environment variable DLX_CUDA_LIBRARY names.
func New() core.Backend { return newBackend() }

// TrimPools returns to the driver the memory that the pools of all opened devices keep for reuse. Call it if another
// library of the process cannot allocate memory of a card or pinned memory, before that library tries again. Memory in use
// and memory with unfinished work stays. TrimPools may wait for work of the cards.
func TrimPools() { trimPools() }

// Timer measures how long work takes on a device, by two events that record the time. It is safe for concurrent
// use.
type Timer struct{ timer cudalike.Timer }

// NewTimer returns a timer for streams of d. The caller must close it. NewTimer fails with core.ErrDevice if d is
// not a device of CUDA, and with core.ErrClosed if d is closed.
func NewTimer(ctx context.Context, d core.Device) (*Timer, error) {
	t := new(Timer)
	if err := openTimer(ctx, d, &t.timer); err != nil {
		return nil, err
	}
	return t, nil
}

// Start makes the time begin when the work that was enqueued on s before is done. Start and Stop fail with
// core.ErrDevice if s is nil or a stream of another device, with core.ErrNotSupported while s is being captured into
// a graph, and with core.ErrClosed if the timer or s is closed.
func (t *Timer) Start(s core.Stream) error { return t.timer.Start(s) }

// Stop makes the time end when the work that was enqueued on s before is done.
func (t *Timer) Stop(s core.Stream) error { return t.timer.Stop(s) }

// Elapsed waits until the time has ended and returns it, with a resolution of about half a microsecond (driver API,
// cuEventElapsedTime). If ctx ends first, Elapsed returns its error. It fails with core.ErrInvalid unless Start and
// Stop were called before, and with core.ErrClosed if the timer is closed.
func (t *Timer) Elapsed(ctx context.Context) (time.Duration, error) { return t.timer.Elapsed(ctx) }

// Close releases the events. A second Close does nothing.
func (t *Timer) Close() error { return t.timer.Close() }
