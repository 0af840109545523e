package backendtest

import (
	"context"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

var orderMutants = []mutant{
	{
		name:  "does not wait for the last write of src",
		hooks: hooks{copy: forget(false, true)},
		fails: "order/read-after-write", says: "what the reader got",
	},
	{
		name:  "does not wait for the uses of dst",
		hooks: hooks{copy: forget(true, false)},
		fails: "order/write-after-read", says: "what the earlier reader got",
	},
	{
		name:  "does not wait for the last write of dst",
		hooks: hooks{copy: forget(true, false)},
		fails: "order/write-after-write", says: "what the later writer left",
	},
	{
		name:  "does not tell dst that it is written",
		hooks: hooks{copy: forget(true, false)},
		fails: "order/ready", says: "dst is ready before the copy has begun",
	},
	{
		name:  "does not tell src that it is read",
		hooks: hooks{copy: forget(false, true)},
		fails: "order/ready", says: "src has no pending work",
	},
	{
		name:  "lets go of a host src before the copy",
		hooks: hooks{copy: forget(false, true)},
		fails: "lifetime/host-source", says: "src was freed before the copy from it began",
	},
	{
		name:  "lets go of a host dst before the copy",
		hooks: hooks{copy: forget(true, false)},
		fails: "lifetime/host-destination", says: "dst was freed before the copy to it began",
	},
	{
		name:  "ignores events of others",
		hooks: hooks{copy: forget(false, true)},
		fails: "order/foreign-event", says: "dst is ready, but the write of src is unfinished",
	},
	{
		name:  "forgets all order",
		hooks: hooks{copy: forget(true, true)},
		fails: "order/many-streams", says: "what was read of write",
	},
	{
		name:  "does not wait for writes within the device",
		hooks: hooks{copy: forgetWhere(func(dst, src *core.Tensor) bool { return src.DeviceID() != core.CPU && dst.DeviceID() == core.CPU })},
		fails: "order/between-streams", says: "144 bytes, written within the device, read with the host on another stream",
	},
	{
		name:  "does not wait before strided downloads",
		hooks: hooks{copy: forgetWhere(func(dst, src *core.Tensor) bool { return dst.DeviceID() == core.CPU && !dst.Layout().IsContiguous() })},
		fails: "order/between-streams", says: "read with the host, strided on another stream",
	},
	{
		name:  "does not wait for large copies",
		hooks: hooks{copy: forgetWhere(func(dst, src *core.Tensor) bool { return dst.NumBytes() > 1<<20 && dst.DType() != core.TypeUint8 })},
		fails: "order/between-streams-large", says: "4194304 bytes, written within the device, read",
	},
	{
		name:  "forgets the order of a mapping and its host memory",
		hooks: hooks{copy: forget(false, true)},
		fails: "map-host/order", says: "what a reader got of a write through",
	},
	{
		name:  "loses the error of a failed write",
		hooks: hooks{copy: forget(false, true)},
		fails: "order/failed-write", says: "want the error of the failed write",
	},
	{
		name:  "loses the error of a write that fails later",
		hooks: hooks{copy: forget(false, true)},
		fails: "order/error-follows-the-data", says: "want the error of the write",
	},
	{
		name: "returns before a copy without a stream is done",
		hooks: hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
			if s != nil {
				return d.fake.Copy(ctx, s, dst, src)
			}
			s, err := d.fake.NewStream(ctx)
			if err != nil {
				return err
			}
			d.later(func() { _ = s.Close() })
			return d.fake.Copy(ctx, s, dst, src)
		}},
		fails: "order/nil-stream", says: "dst is not ready when Copy returns",
	},
	{
		name: "swallows the context of a copy",
		hooks: hooks{copy: func(d *device, _ context.Context, s core.Stream, dst, src *core.Tensor) error {
			return d.fake.Copy(deaf(), s, dst, src)
		}},
		fails: "context/copy", says: "did not return",
	},
}

// forget copies on a stream without the events of dst, of src, or of both.
func forget(dstEvents, srcEvents bool) copyHook {
	return func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		if s == nil {
			return d.fake.Copy(ctx, nil, dst, src)
		}
		for _, x := range []struct {
			forget bool
			t      **core.Tensor
		}{{dstEvents, &dst}, {srcEvents, &src}} {
			if !x.forget {
				continue
			}
			u, err := unordered(*x.t)
			if err != nil {
				return err
			}
			defer u.Close()
			*x.t = u
		}
		return d.fake.Copy(ctx, s, dst, src)
	}
}

// forgetWhere copies on a stream without events where a copy matches.
func forgetWhere(match func(dst, src *core.Tensor) bool) copyHook {
	loose := forget(true, true)
	return func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		if match(dst, src) {
			return loose(d, ctx, s, dst, src)
		}
		return d.fake.Copy(ctx, s, dst, src)
	}
}

// passed is an event that was passed.
func passed() core.Event {
	e := stream.NewEvent()
	e.Complete(nil)
	return e
}

var streamMutants = []mutant{
	{
		name:  "streams of no device",
		hooks: hooks{stream: streamHooks{device: func() core.Device { return nil }}},
		fails: "stream/device", says: "not the device that made the stream",
	},
	{
		name:  "events done too early",
		hooks: hooks{stream: streamHooks{record: func(core.Stream) (core.Event, error) { return passed(), nil }}},
		fails: "stream/event-after-wait", says: "the copy is not done after Wait",
	},
	{
		name:  "events that do not look back",
		hooks: hooks{stream: streamHooks{record: func(core.Stream) (core.Event, error) { return passed(), nil }}},
		fails: "stream/event-not-early", says: "the event is done, but the work before it has not begun",
	},
	{
		name:  "Synchronize does nothing",
		hooks: hooks{stream: streamHooks{synchronize: func(core.Stream, context.Context) error { return nil }}},
		fails: "stream/synchronize", says: "not done after Synchronize",
	},
	{
		name: "Synchronize swallows ctx",
		hooks: hooks{stream: streamHooks{synchronize: func(s core.Stream, _ context.Context) error {
			return s.Synchronize(deaf())
		}}},
		fails: "context/synchronize", says: "did not return",
	},
	{
		name: "events swallow ctx",
		hooks: hooks{stream: streamHooks{record: func(s core.Stream) (core.Event, error) {
			e, err := s.Record()
			return deafEvent{e}, err
		}}},
		fails: "context/event-wait", says: "did not return",
	},
	{
		name: "Wait does not wait",
		hooks: hooks{stream: streamHooks{wait: func(s core.Stream, e core.Event) error {
			if _, gate := e.(*stream.Event); gate {
				return s.Wait(e)
			}
			return nil
		}}},
		fails: "stream/wait-for-another", says: "the second stream",
	},
	{
		name:    "Wait neither waits nor refuses",
		hooks:   hooks{stream: streamHooks{wait: func(core.Stream, core.Event) error { return nil }}},
		options: coretest.Options{HostWaits: true},
		fails:   "stream/wait-unsupported", says: "Wait for an event of another stream: error <nil>",
	},
	{
		name:  "Wait for a foreign event does not wait",
		hooks: hooks{stream: streamHooks{wait: func(s core.Stream, e core.Event) error { return nil }}},
		fails: "stream/wait-for-a-foreign-event", says: "went on before the event",
	},
	{
		name: "Wait takes no nil",
		hooks: hooks{stream: streamHooks{wait: func(s core.Stream, e core.Event) error {
			if e == nil {
				return core.Errorf(core.ErrInvalid, "mutant", "Wait", "the event is nil")
			}
			return s.Wait(e)
		}}},
		fails: "stream/wait-for-itself", says: "the event is nil",
	},
	{
		name: "Close does not wait",
		hooks: hooks{stream: streamHooks{close: func(d *device, q *queue) error {
			d.later(func() { _ = q.Stream.Close() })
			return nil
		}}},
		fails: "stream/close-waits", says: "not done after Close",
	},
	{
		name: "leaks a stream",
		hooks: hooks{stream: streamHooks{close: func(d *device, q *queue) error {
			d.later(func() { _ = q.Stream.Close() })
			return nil
		}}},
		fails: "stream/in-order", says: "with nothing open on it",
	},
	{
		name: "Close fails the second time",
		hooks: hooks{stream: streamHooks{close: func(d *device, q *queue) error {
			if _, err := q.Stream.Record(); err != nil {
				return err
			}
			return q.Stream.Close()
		}}},
		fails: "stream/close-twice", says: "one more Close",
	},
	{
		name: "works after Close",
		hooks: hooks{stream: streamHooks{record: func(s core.Stream) (core.Event, error) {
			if e, err := s.Record(); err == nil {
				return e, nil
			}
			return passed(), nil
		}}},
		fails: "stream/use-after-close", says: "Record: error <nil>",
	},
}

// deafEvent does not hear its context.
type deafEvent struct{ core.Event }

func (d deafEvent) Wait(context.Context) error { return d.Event.Wait(deaf()) }

// deaf is what a mutant listens to instead of its caller's context. It ends when
// the case is over, so that no goroutine stays behind.
func deaf() context.Context { return *caseContext.Load() }

// caseContext is that of the case which runs: see wantFailure.
var caseContext atomic.Pointer[context.Context]
