package backendkit

import "github.com/dlx-go/dlx/core"

// The interfaces of this file are optional, and have no capability. A device, a stream, an event or an owner offers
// such an interface if its type has the methods.

// OrderedOwner is a [core.Owner] that can free memory in the order of streams, such as a
// stream-ordered pool.
type OrderedOwner interface {
	core.Owner
	// FreeAfter is called instead of Free if work that uses the memory may be
	// unfinished. The memory must not be used again before all events in pending are
	// done. FreeAfter must not block.
	FreeAfter(pending []core.Event)
}

// EventWrapper is a [core.Event] that wraps another one to report more errors, such as those
// of earlier work. It is done only when all the work that it reports on is done. Both
// events stand for the same point in the work of the device. A [core.Stream] that has to wait
// for the wrapper therefore waits for the wrapped event.
type EventWrapper interface {
	core.Event
	// Unwrap returns the wrapped event.
	Unwrap() core.Event
}

// UnwrapEvent returns the event that a [core.Stream] waits for on the device: the event that e
// wraps, if e is an [EventWrapper], or e itself.
func UnwrapEvent(e core.Event) core.Event {
	if w, ok := e.(EventWrapper); ok {
		return w.Unwrap()
	}
	return e
}

// SettledWaiter is implemented by a [core.Stream] for which waiting counts as work: if it
// waits for an event that fails, its own later events report that error. Before the
// stream overwrites memory, it must wait for earlier work on that memory without taking
// over its errors. WaitSettled does so.
type SettledWaiter interface {
	// WaitSettled is like [core.Stream.Wait], but a failure of e is not a failure of the
	// stream.
	WaitSettled(e core.Event) error
}

// HostWorker is implemented by a [core.Stream] that can run a Go function as part of its work,
// in order, as the queues of package stream do. Semaphores that live on the host use it
// to signal from a stream.
type HostWorker interface {
	// Enqueue adds work after all work enqueued before. If work returns an error, the
	// next event that is recorded reports it. If all earlier work is done, Enqueue may run work
	// before it returns.
	Enqueue(work func() error) error
}

// ShareChecker is implemented by a [core.Device] that knows which of its memory it shares. Package exchange asks it for each
// plan and move, and otherwise assumes that memory can be shared until a try shows that it cannot. It has no capability.
type ShareChecker interface {
	// CanExport returns nil if ExportMemory of [core.MemoryExporter] can export m, memory of the device, as t, as far as the
	// device can tell without exporting it. Otherwise it returns the error of ExportMemory. It may ask the driver, and
	// leaves nothing open.
	CanExport(m core.Memory, t core.HandleType) error
	// CanView does the same for HostView of [core.HostViewer]. A memory without Handle stands for what Alloc returns without
	// AllocOptions.HostVisible.
	CanView(m core.Memory) error
}

// ExportTrier is a [core.MemoryExporter] whose driver decides whether some memory can be exported,
// such as that of another library. exchange.Plan asks it, so that a plan agrees with the move.
// It has no capability.
type ExportTrier interface {
	// TryExport returns nil if ExportMemory can export b as t now. Otherwise it returns the
	// error that ExportMemory would return. It may ask the driver, which takes some 10 us, and
	// leaves nothing open.
	TryExport(b *core.Buffer, t core.HandleType) error
}
