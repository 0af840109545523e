package rocm

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
)

// New returns the backend "rocm". It has the devices that HIP lists, in HIP's order; the environment variables
// HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES select them. A device can be opened several times. Each opened device has
// a pool and streams of its own. The first call of a method opens libamdhip64.so.7, .6 or .5, or the library that the
// environment variable DLX_HIP_LIBRARY names.
func New() core.Backend { return newBackend() }

// TrimPools returns to HIP the memory that the pools of all opened devices keep for reuse and that has no unfinished
// work. Call it if another library of the process cannot allocate, before that tries again. It may wait for work.
func TrimPools() { trimPools() }

// Timer measures how long work takes on a device. It is safe for concurrent use.
type Timer struct{ timer cudalike.Timer }

// NewTimer returns a timer for streams of d, which the caller must close. It fails with core.ErrDevice if d is not a
// device of ROCm, and with core.ErrClosed if d is closed.
func NewTimer(ctx context.Context, d core.Device) (*Timer, error) {
	var t Timer
	err := openTimer(ctx, d, &t.timer)
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// Start makes the time begin, and Stop makes it end, when the work that was enqueued on s before is done. Both fail as
// the methods of a cuda.Timer do.
func (t *Timer) Start(s core.Stream) error { return t.timer.Start(s) }

// Stop is described at Start.
func (t *Timer) Stop(s core.Stream) error { return t.timer.Stop(s) }

// Elapsed waits until the time has ended, and returns it (hipEventElapsedTime). It returns ctx's error if ctx ends first,
// core.ErrInvalid before Start and Stop, and core.ErrClosed after Close.
func (t *Timer) Elapsed(ctx context.Context) (time.Duration, error) { return t.timer.Elapsed(ctx) }

// Close releases the timer. A second Close does nothing.
func (t *Timer) Close() error { return t.timer.Close() }
