package backendtest

import (
	"errors"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

var streamCases = []Case{
	{
		Name: "stream/device",
		Rule: "core.Stream.Device: returns the device that made the stream",
		run:  caseStreamDevice,
	},
	{
		Name: "stream/in-order",
		Rule: "core.Stream: an ordered queue; each piece of work sees what was enqueued before",
		run:  caseStreamInOrder,
	},
	{
		Name: "stream/record-without-work",
		Rule: "core.Stream.Record: an event of a stream without work can be waited for and is done then",
		run:  caseRecordWithoutWork,
	},
	{
		Name: "stream/event-after-wait",
		Rule: "core.Event: once Wait returned nil, Done reports true, and the work before the event is done",
		run:  caseEventAfterWait,
	},
	{
		Name:  "stream/event-not-early",
		Rule:  "core.Stream.Record: the event is done when all work enqueued before is done, and not earlier",
		Needs: core.CapAsync,
		run:   caseEventNotEarly,
	},
	{
		Name: "stream/synchronize",
		Rule: "core.Stream.Synchronize: blocks until all work enqueued before is done",
		run:  caseSynchronize,
	},
	{
		Name: "stream/wait-for-itself",
		Rule: "core.Stream.Wait: changes nothing for an event that is done, an event of the stream itself, or nil",
		run:  caseWaitPassed,
	},
	{
		Name:  "stream/wait-for-another",
		Rule:  "core.Stream.Wait: makes work enqueued later wait for an event of another stream, without blocking the caller",
		Needs: core.CapAsync | core.CapStreamWait,
		run:   caseWaitForAnother,
	},
	{
		Name:  "stream/wait-unsupported",
		Rule:  "core.Stream.Wait: fails with ErrNotSupported on a device that cannot wait for events of its other streams, and the stream goes on as before",
		Lacks: core.CapStreamWait,
		run:   caseWaitUnsupported,
	},
	{
		Name:  "stream/wait-for-a-foreign-event",
		Rule:  "core.Stream.Wait: fails with ErrNotSupported for an event that the device cannot wait for; otherwise waits",
		Needs: core.CapAsync,
		run:   caseWaitForForeignEvent,
	},
	{
		Name: "stream/close-waits",
		Rule: "core.Stream.Close: waits for the work",
		run:  caseCloseWaits,
	},
	{
		Name: "stream/close-twice",
		Rule: "core.Stream.Close: a second Close does nothing, from many goroutines too",
		run:  caseStreamCloseTwice,
	},
	{
		Name: "stream/use-after-close",
		Rule: "core.ErrClosed: Record, Wait, Synchronize and a Copy on a closed stream fail with it; its events stay usable",
		run:  caseStreamUseAfterClose,
	},
}

var contextCases = []Case{
	{
		Name:  "context/synchronize",
		Rule:  "core.Stream.Synchronize: returns ctx's error when ctx ends first; the work goes on",
		Needs: core.CapAsync,
		run:   caseSynchronizeContext,
	},
	{
		Name:  "context/event-wait",
		Rule:  "core.Event.Wait: returns ctx's error when ctx ends first; the event is done later all the same",
		Needs: core.CapAsync,
		run:   caseEventWaitContext,
	},
	{
		Name:  "context/copy",
		Rule:  "core.Device.Copy: with a nil stream it waits no longer than ctx, and returns ctx's error",
		Needs: core.CapAsync,
		run:   caseCopyContext,
	},
}

func caseStreamDevice(e *env) {
	s := e.stream()
	if s.Device() != e.dev {
		e.Errorf("Device() is %v, not the device that made the stream", s.Device())
	}
}

func caseStreamInOrder(e *env) {
	s := e.stream()
	contents := [][]byte{e.pattern(4096), e.pattern(4096), e.pattern(4096)}
	a, b := e.bytes(4096), e.bytes(4096)
	results := make([]*core.Tensor, 30)
	for i := range results { // a is overwritten again and again, and each time carried on
		results[i] = e.bytes(4096)
		e.copy(s, a, e.hostBytes(contents[i%3]))
		e.copy(s, b, a)
		e.copy(s, results[i], b)
	}
	e.synchronize(s)
	for i, r := range results {
		e.wantBytes(r, contents[i%3], "chain %d of copies", i)
	}
}

func caseRecordWithoutWork(e *env) {
	s := e.stream()
	ev := e.record(s)
	e.check(ev.Wait(e.ctx), "Wait")
	if !e.isDone(ev) {
		e.Errorf("the event is not done after Wait")
	}
	e.synchronize(s)
}

func caseEventAfterWait(e *env) {
	s := e.stream()
	content := e.pattern(100_000)
	host := make([]byte, len(content))
	t := e.bytes(int64(len(content)))
	e.copy(s, t, e.hostBytes(content))
	e.copy(s, e.hostBytes(host), t)
	ev := e.record(s)
	e.check(ev.Wait(e.ctx), "Wait")
	if !e.isDone(ev) {
		e.Errorf("the event is not done after Wait")
	}
	if !slices.Equal(host, content) {
		e.Errorf("the copy is not done after Wait: %s", difference(host, content))
	}
	e.check(ev.Wait(e.ctx), "a second Wait")
}

func caseEventNotEarly(e *env) {
	s := e.stream()
	before := e.record(s)
	release, sure := e.hold(s)
	e.copy(s, e.bytes(100), e.hostBytes(e.pattern(100)))
	ev := e.record(s)
	time.Sleep(e.cfg.grace)
	if sure && e.isDone(ev) {
		e.Errorf("the event is done, but the work before it has not begun")
	}
	e.check(before.Wait(e.ctx), "Wait for the event before the work")
	release()
	e.check(ev.Wait(e.ctx), "Wait")
	if !e.isDone(ev) {
		e.Errorf("the event is not done after Wait")
	}
}

func caseSynchronize(e *env) {
	s := e.stream()
	e.synchronize(s)
	content := e.pattern(1 << 18)
	host := make([]byte, len(content))
	t := e.bytes(int64(len(content)))
	src, dst := e.hostBytes(content), e.hostBytes(host)
	release, _ := e.hold(s)
	err := e.whileHeld(release, func() error {
		return errors.Join(e.dev.Copy(e.ctx, s, t, src), e.dev.Copy(e.ctx, s, dst, t), s.Synchronize(e.ctx))
	})
	e.check(err, "Copy and Synchronize")
	if !slices.Equal(host, content) {
		e.Errorf("the copy is not done after Synchronize: %s", difference(host, content))
	}
	e.synchronize(s)
}

func caseWaitPassed(e *env) {
	s := e.stream()
	content := e.pattern(100)
	e.check(s.Wait(nil), "Wait(nil)")
	ev := e.record(s)
	e.wait(s, ev)
	e.synchronize(s)
	e.wait(s, ev)
	t := e.bytes(100)
	e.copy(s, t, e.hostBytes(content))
	e.synchronize(s)
	e.wantBytes(t, content, "work after the waits")
}

// wait makes a stream wait for an event of the device, if the device can do that.
func (e *env) wait(s core.Stream, ev core.Event) {
	e.Helper()
	err := s.Wait(ev)
	if !e.props.Capabilities.Has(core.CapStreamWait) && errors.Is(err, core.ErrNotSupported) {
		return
	}
	e.check(err, "Wait for an event of the device")
}

func caseWaitForAnother(e *env) {
	first, second := e.stream(), e.stream()
	release, sure := e.hold(first)
	ev := e.record(first)
	e.check(e.finish(e.start(func() error { return second.Wait(ev) })), "Wait")
	last := e.record(second)
	if sure && e.passes(second) {
		e.Errorf("the second stream did not wait for the first")
	}
	release()
	e.check(last.Wait(e.ctx), "Wait for the last event")
	if !e.isDone(ev) {
		e.Errorf("the second stream overtook the first")
	}
}

func caseWaitUnsupported(e *env) {
	first, second := e.stream(), e.stream()
	content := e.pattern(100)
	t := e.bytes(100)
	release, sure := e.hold(first)
	err := second.Wait(e.record(first))
	if sure || err != nil {
		e.wantError(err, core.ErrNotSupported, "Wait for an event of another stream")
	}
	release()
	e.copy(second, t, e.hostBytes(content))
	e.synchronize(second)
	e.wantBytes(t, content, "work after the refused Wait")
}

// foreignEvent is an event of no device, of which only the interface is known.
type foreignEvent struct{ core.Event }

func caseWaitForForeignEvent(e *env) {
	s := e.stream()
	gate := stream.NewEvent()
	e.Cleanup(func() { gate.Complete(nil) })
	if err := s.Wait(foreignEvent{gate}); err != nil {
		e.wantError(err, core.ErrNotSupported, "Wait for the event of another library")
	} else if e.passes(s) {
		e.Errorf("the stream went on before the event")
	}
	gate.Complete(nil)
	e.synchronize(s)
}

func caseCloseWaits(e *env) {
	s := e.stream()
	content := e.pattern(1 << 18)
	host := make([]byte, len(content))
	t := e.bytes(int64(len(content)))
	e.copy(s, t, e.hostBytes(content))
	e.copy(s, e.hostBytes(host), t)
	ev := e.record(s)
	e.check(s.Close(), "Close")
	if !e.isDone(ev) {
		e.Errorf("an event of earlier work is not done after Close")
	}
	if !slices.Equal(host, content) {
		e.Errorf("the copy is not done after Close: %s", difference(host, content))
	}
}

func caseStreamCloseTwice(e *env) {
	s := e.stream()
	var calls []<-chan error
	for range 4 {
		calls = append(calls, e.start(s.Close))
	}
	for i, c := range calls {
		if err := e.finish(c); err != nil {
			e.Errorf("Close %d of 4 at once: %v", i+1, err)
		}
	}
	if err := s.Close(); err != nil {
		e.Errorf("one more Close: %v", err)
	}
}

func caseStreamUseAfterClose(e *env) {
	s, other := e.stream(), e.stream()
	ev := e.record(s)
	e.check(s.Close(), "Close")
	e.check(ev.Wait(e.ctx), "Wait for an event of the closed stream")
	if !e.isDone(ev) {
		e.Errorf("an event of the closed stream is not done")
	}
	_, err := s.Record()
	e.wantError(err, core.ErrClosed, "Record")
	if e.props.Capabilities.Has(core.CapStreamWait) {
		e.wantError(s.Wait(e.record(other)), core.ErrClosed, "Wait")
	}
	e.wantError(s.Synchronize(e.ctx), core.ErrClosed, "Synchronize")
	content := e.pattern(16)
	t := e.upload(content)
	e.wantError(e.dev.Copy(e.ctx, s, t, e.upload(e.pattern(16))), core.ErrClosed, "Copy")
	e.wantBytes(t, content, "dst after the refused Copy")
}

func caseSynchronizeContext(e *env) {
	s := e.stream()
	release, sure := e.hold(s)
	ctx, cancel := e.soon()
	defer cancel()
	err := e.finish(e.start(func() error { return s.Synchronize(ctx) }))
	if sure || err != nil {
		e.wantContext(err, "Synchronize")
	}
	release()
	e.synchronize(s)
}

func caseEventWaitContext(e *env) {
	s := e.stream()
	release, sure := e.hold(s)
	e.copy(s, e.bytes(100), e.hostBytes(e.pattern(100)))
	ev := e.record(s)
	ctx, cancel := e.soon()
	defer cancel()
	err := e.finish(e.start(func() error { return ev.Wait(ctx) }))
	if sure || err != nil {
		e.wantContext(err, "Wait")
	}
	release()
	e.check(ev.Wait(e.ctx), "Wait after ctx ended once")
}

func caseCopyContext(e *env) {
	content := e.pattern(100)
	dst, src := e.bytes(100), e.upload(content)
	gate := e.pending(src)
	ctx, cancel := e.soon()
	defer cancel()
	err := e.finish(e.start(func() error { return e.dev.Copy(ctx, nil, dst, src) }))
	e.wantContext(err, "Copy")
	gate.Complete(nil)
	e.wantBytes(src, content, "src after a Copy that gave up")
	e.copy(nil, dst, src)
	e.wantBytes(dst, content, "a later Copy")
}
