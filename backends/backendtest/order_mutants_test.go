package backendtest

import (
	"context"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// These copy on a stream without the events of src, of dst, or of both.
var (
	forgetsSrc  = hooks{copy: forget(false, true)}
	forgetsDst  = hooks{copy: forget(true, false)}
	forgetsBoth = hooks{copy: forget(true, true)}
)

var orderMutants = []mutant[hooks]{
	{"does not wait for the last write of src", "order/read-after-write", "what the reader got", forgetsSrc},
	{"does not wait for the uses of dst", "order/write-after-read", "what the earlier reader got", forgetsDst},
	{"does not wait for the last write of dst", "order/write-after-write", "what the later writer left", forgetsDst},
	{"does not tell dst that it is written", "order/ready", "dst is ready before the copy has begun", forgetsDst},
	{"does not tell src that it is read", "order/ready", "src has no pending work", forgetsSrc},
	{"lets go of a host src before the copy", "lifetime/host-source", "src was freed before the copy from it began", forgetsSrc},
	{"lets go of a host dst before the copy", "lifetime/host-destination", "dst was freed before the copy to it began", forgetsDst},
	{"ignores events of others", "order/foreign-event", "dst is ready, but the write of src is unfinished", forgetsSrc},
	{"forgets all order", "order/many-streams", "what was read of write", forgetsBoth},
	{"does not wait for writes within the device", "order/between-streams", "144 bytes, written within the device, read with the host on another stream",
		forgetWhere(func(dst, src *core.Tensor) bool { return src.DeviceID() != core.CPU && dst.DeviceID() == core.CPU })},
	{"does not wait before strided downloads", "order/between-streams", "read with the host, strided on another stream",
		forgetWhere(func(dst, src *core.Tensor) bool { return dst.DeviceID() == core.CPU && !dst.Layout().IsContiguous() })},
	{"does not wait for large copies", "order/between-streams-large", "4194304 bytes, written within the device, read",
		forgetWhere(func(dst, src *core.Tensor) bool { return dst.NumBytes() > 1<<20 && dst.DType() != core.TypeUint8 })},
	{"forgets the order of a mapping and its host memory", "map-host/order", "what a reader got of a write through", forgetsSrc},
	{"loses the error of a failed write", "order/failed-write", "want the error of the failed write", forgetsSrc},
	{"loses the error of a write that fails later", "order/error-follows-the-data", "want the error of the write", forgetsSrc},
	{"returns before a copy without a stream is done", "order/nil-stream", "dst is not ready when Copy returns",
		hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
			if s != nil {
				return d.Copy(ctx, s, dst, src)
			}
			s, err := d.NewStream(ctx)
			if err != nil {
				return err
			}
			d.later(func() { _ = s.Close() })
			return d.Copy(ctx, s, dst, src)
		}}},
	{"swallows the context of a copy", "context/copy", "did not return",
		hooks{copy: func(d *device, _ context.Context, s core.Stream, dst, src *core.Tensor) error {
			return d.Copy(deaf(), s, dst, src)
		}}},
}

// forget copies on a stream without the events of dst, of src, or of both.
func forget(dstEvents, srcEvents bool) copyHook {
	return func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		if s == nil {
			return d.Copy(ctx, nil, dst, src)
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
		return d.Copy(ctx, s, dst, src)
	}
}

// forgetWhere copies on a stream without events where a copy matches.
func forgetWhere(match func(dst, src *core.Tensor) bool) hooks {
	return hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		if match(dst, src) {
			return forgetsBoth.copy(d, ctx, s, dst, src)
		}
		return d.Copy(ctx, s, dst, src)
	}}
}

// passed is an event that was passed.
func passed() core.Event {
	e := stream.NewEvent()
	e.Complete(nil)
	return e
}

var (
	passes             = hooks{stream: streamHooks{record: func(core.Stream) (core.Event, error) { return passed(), nil }}}
	waitsNever         = hooks{stream: streamHooks{wait: func(core.Stream, core.Event) error { return nil }}}
	closesStreamsLater = hooks{stream: streamHooks{close: func(d *device, s core.Stream) error {
		d.later(func() { _ = s.Close() })
		return nil
	}}}
)

var streamMutants = []mutant[hooks]{
	{"streams of no device", "stream/device", "not the device that made the stream",
		hooks{stream: streamHooks{device: func(*device) core.Device { return nil }}}},
	{"events done too early", "stream/event-after-wait", "the copy is not done after Wait", passes},
	{"events that do not look back", "stream/event-not-early", "the event is done, but the work before it has not begun", passes},
	{"Synchronize does nothing", "stream/synchronize", "not done after Synchronize",
		hooks{stream: streamHooks{synchronize: func(core.Stream, context.Context) error { return nil }}}},
	{"Synchronize swallows ctx", "context/synchronize", "did not return",
		hooks{stream: streamHooks{synchronize: func(s core.Stream, _ context.Context) error { return s.Synchronize(deaf()) }}}},
	{"events swallow ctx", "context/event-wait", "did not return",
		records(func(e core.Event) core.Event { return deafEvent{e} })},
	{"Wait does not wait", "stream/wait-for-another", "the second stream",
		hooks{stream: streamHooks{wait: func(s core.Stream, e core.Event) error {
			if _, gate := e.(*stream.Event); gate {
				return s.Wait(e)
			}
			return nil
		}}}},
	{"Wait neither waits nor refuses", "stream/wait-unsupported", "Wait for an event of another stream: error <nil>",
		hooks{options: coretest.Options{HostWaits: true}, stream: waitsNever.stream}},
	{"Wait for a foreign event does not wait", "stream/wait-for-a-foreign-event", "went on before the event", waitsNever},
	{"Wait takes no nil", "stream/wait-for-itself", "the event is nil",
		hooks{stream: streamHooks{wait: func(s core.Stream, e core.Event) error {
			if e == nil {
				return core.Errorf(core.ErrInvalid, "mutant", "Wait", "the event is nil")
			}
			return s.Wait(e)
		}}}},
	{"Close does not wait", "stream/close-waits", "not done after Close", closesStreamsLater},
	{"leaks a stream", "stream/in-order", "with nothing open on it", closesStreamsLater},
	{"Close fails the second time", "stream/close-twice", "one more Close",
		hooks{stream: streamHooks{close: func(_ *device, s core.Stream) error {
			if _, err := s.Record(); err != nil {
				return err
			}
			return s.Close()
		}}}},
	{"works after Close", "stream/use-after-close", "Record: error <nil>",
		hooks{stream: streamHooks{record: func(s core.Stream) (core.Event, error) {
			if e, err := s.Record(); err == nil {
				return e, nil
			}
			return passed(), nil
		}}}},
}

// records makes other events of those that streams record.
func records(other func(core.Event) core.Event) hooks {
	return hooks{stream: streamHooks{record: func(s core.Stream) (core.Event, error) {
		e, err := s.Record()
		return other(e), err
	}}}
}

// deafEvent does not hear its context.
type deafEvent struct{ core.Event }

func (d deafEvent) Wait(context.Context) error { return d.Event.Wait(deaf()) }

// deaf is what a mutant listens to instead of its caller's context. It ends when
// the case is over, so that no goroutine stays behind.
func deaf() context.Context { return *caseContext.Load() }

// caseContext is that of the case which runs: see wantFailure.
var caseContext atomic.Pointer[context.Context]
