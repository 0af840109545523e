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

// EndExport says that no other process has the memory of b open any more, nor will
// open it: it is freed with its last tensor then. Without that, memory that was
// exported as core.HandleCUDAIPC stays allocated until its device is closed, since
// CUDA does not tell whether somebody uses it, and must not free it before. It fails
// with core.ErrInvalid if b was not allocated with that AllocOptions.Export, core.ErrDevice if
// it does not lie on CUDA, and core.ErrClosed.
func EndExport(b *core.Buffer) error { return endExport(b) }

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

// IPCEvent is an event that streams of several processes record and wait for. Each
// Record moves it to a new point, and a wait is for the point where it was then: that the
// record comes before the wait the processes must agree on by other means. It is
// safe for concurrent use.
type IPCEvent struct{ event cudalike.IPCEvent }

// NewIPCEvent makes an event on d that other processes open by its Handle. The
// caller closes it, after the others have closed theirs (cuIpcGetEventHandle). It
// fails with core.ErrDevice if d is no device of CUDA, core.ErrNotSupported where the
// driver has no such events, and core.ErrClosed.
func NewIPCEvent(ctx context.Context, d core.Device) (*IPCEvent, error) {
	e := new(IPCEvent)
	if err := makeIPCEvent(ctx, d, &e.event); err != nil {
		return nil, err
	}
	return e, nil
}

// OpenIPCEvent opens, on a device of the same card, the event of another process. The
// caller closes it. It fails as NewIPCEvent does, and with core.ErrInvalid if
// handle is none or whoever made it is gone, core.ErrNotSupported if that is this process.
func OpenIPCEvent(ctx context.Context, d core.Device, handle [64]byte) (*IPCEvent, error) {
	e := new(IPCEvent)
	if err := openIPCEvent(ctx, d, handle, &e.event); err != nil {
		return nil, err
	}
	return e, nil
}

// Handle is what [OpenIPCEvent] takes in another process: a CUipcEventHandle.
func (e *IPCEvent) Handle() [64]byte { return e.event.Handle() }

// Record moves the event behind all work that was enqueued on s, a stream of the
// event's device. It fails with core.ErrDevice for another stream, and core.ErrClosed.
func (e *IPCEvent) Record(s core.Stream) error { return e.event.Record(s) }

// WaitOn makes work enqueued on s later wait for the point of the latest Record, of
// any process; if there was none, for nothing. It fails as Record does.
func (e *IPCEvent) WaitOn(s core.Stream) error { return e.event.WaitOn(s) }

// Close gives the event back. Waits for it that were enqueued stay. A second Close
// does nothing.
func (e *IPCEvent) Close() error { return e.event.Close() }
