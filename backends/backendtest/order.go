package backendtest

import (
	"errors"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

var orderCases = []Case{
	{
		Name: "order/nil-stream",
		Rule: "core.Device.Copy: with a nil stream the call returns when the copy is done",
		run:  caseNilStream,
	},
	{
		Name:  "order/ready",
		Rule:  "core.Device.Copy: the work becomes the last write of dst and a use of src, and both stay so until it is done",
		Needs: core.CapAsync,
		run:   caseReady,
	},
	{
		Name:  "order/read-after-write",
		Rule:  "core.Device.Copy: the work waits for the last write of src, on whichever stream that is",
		Needs: core.CapAsync,
		run:   caseReadAfterWrite,
	},
	{
		Name:  "order/write-after-read",
		Rule:  "core.Device.Copy: the work waits for all uses of dst, on whichever stream they are",
		Needs: core.CapAsync,
		run:   caseWriteAfterRead,
	},
	{
		Name:  "order/write-after-write",
		Rule:  "core.Device.Copy: the work waits for the last write of dst, on whichever stream that is",
		Needs: core.CapAsync,
		run:   caseWriteAfterWrite,
	},
	{
		Name:  "order/foreign-event",
		Rule:  "core.Buffer.Ready: work waits for a write by any API; the host waits if the device cannot",
		Needs: core.CapAsync,
		run:   caseForeignEvent,
	},
	{
		Name: "order/views-share-order",
		Rule: "core.Tensor.Ready: order belongs to the memory; a write through one view is waited for by a reader of another",
		run:  caseViewsShareOrder,
	},
	{
		Name:  "order/many-streams",
		Rule:  "core.Device.Copy: a tensor that several streams use is written and read in the order of the calls",
		Needs: core.CapAsync,
		run:   caseManyStreams,
	},
	{
		Name: "order/failed-write",
		Rule: "core.Buffer.Ready: a copy from the result of a failed write reports the error of that write",
		run:  caseFailedWrite,
	},
	{
		Name: "order/error-follows-the-data",
		Rule: "core.Buffer.Ready: if a write fails later, every copy made from its result fails too, whichever streams they use",
		run:  caseErrorFollows,
	},
	{
		Name: "order/overwrite-failed-write",
		Rule: "core.Device.Copy: overwriting the result of a failed write succeeds",
		run:  caseOverwriteFailed,
	},
}

func caseNilStream(e *env) {
	content := e.pattern(1<<20 + 7)
	host := make([]byte, len(content))
	t := e.bytes(int64(len(content)))
	e.copy(nil, t, e.hostBytes(content))
	if !e.isDone(t.Ready()) {
		e.Errorf("dst is not ready when Copy returns")
	}
	dst := e.hostBytes(host)
	e.copy(nil, dst, t)
	if !e.isDone(dst.Ready()) {
		e.Errorf("the host's dst is not ready when Copy returns")
	}
	if !slices.Equal(host, content) {
		e.Errorf("the host's dst: %s", difference(host, content))
	}
}

// pendingWork lists the unfinished work on a tensor's memory.
func (e *env) pendingWork(t *core.Tensor) []core.Event {
	e.Helper()
	b, err := t.Buffer()
	e.check(err, "Buffer")
	return b.Pending()
}

func caseReady(e *env) {
	s := e.stream()
	src, dst := e.upload(e.pattern(100)), e.bytes(100)
	release, sure := e.hold(s)
	e.copy(s, dst, src)
	time.Sleep(e.cfg.grace)
	if sure && e.isDone(dst.Ready()) {
		e.Errorf("dst is ready before the copy has begun")
	}
	if sure && len(e.pendingWork(src)) == 0 {
		e.Errorf("src has no pending work, but the copy has not begun")
	}
	if sure && src.Ready() != nil {
		e.Errorf("src is not ready, but nothing writes to it")
	}
	release()
	e.check(dst.WaitReady(e.ctx), "WaitReady of dst")
	e.synchronize(s)
	if dst.Ready() != nil || len(e.pendingWork(src)) != 0 {
		e.Errorf("work is pending on dst or src after it is done")
	}
}

func caseReadAfterWrite(e *env) {
	first, second := e.stream(), e.stream()
	content := e.pattern(1000)
	t, out := e.upload(e.pattern(1000)), e.bytes(1000)
	release, _ := e.hold(first)
	e.copy(first, t, e.hostBytes(content))
	err := e.whileHeld(release, func() error {
		return errors.Join(e.dev.Copy(e.ctx, second, out, t), second.Synchronize(e.ctx))
	})
	e.check(err, "Copy of the result on another stream")
	e.wantBytes(out, content, "what the reader got")
}

func caseWriteAfterRead(e *env) {
	first, second := e.stream(), e.stream()
	old, next := e.pattern(1000), e.pattern(1000)
	t, out := e.upload(old), e.bytes(1000)
	update := e.upload(next)
	release, _ := e.hold(first)
	e.copy(first, out, t)
	err := e.whileHeld(release, func() error {
		return errors.Join(e.dev.Copy(e.ctx, second, t, update), second.Synchronize(e.ctx))
	})
	e.check(err, "Copy over memory that is being read")
	e.synchronize(first)
	e.wantBytes(out, old, "what the earlier reader got")
	e.wantBytes(t, next, "what the writer left")
}

func caseWriteAfterWrite(e *env) {
	first, second := e.stream(), e.stream()
	next := e.pattern(1000)
	t, update := e.bytes(1000), e.upload(next)
	old := e.upload(e.pattern(1000))
	release, _ := e.hold(first)
	e.copy(first, t, old)
	err := e.whileHeld(release, func() error {
		return errors.Join(e.dev.Copy(e.ctx, second, t, update), second.Synchronize(e.ctx))
	})
	e.check(err, "Copy over memory that is being written")
	e.synchronize(first)
	e.wantBytes(t, next, "what the later writer left")
}

func caseForeignEvent(e *env) {
	s := e.stream()
	content := e.pattern(100)
	src, dst := e.upload(content), e.bytes(100)
	gate := e.pending(src)
	call := e.start(func() error { return e.dev.Copy(e.ctx, s, dst, src) })
	time.Sleep(e.cfg.grace)
	select {
	case err := <-call:
		e.check(err, "Copy")
		if e.isDone(dst.Ready()) || e.passes(s) {
			e.Errorf("dst is ready, but the write of src is unfinished")
		}
	default: // the host waits inside of Copy
		defer func() { e.check(e.finish(call), "Copy") }()
	}
	gate.Complete(nil)
	if !eventually(e.cfg.Timeout, func() bool { return src.Ready() == nil }) {
		e.Errorf("src is not ready after its write is done")
	}
}

func caseViewsShareOrder(e *env) {
	first, second := e.stream(), e.stream()
	content := e.pattern(1000)
	t, out := e.upload(e.pattern(1000)), e.bytes(1000)
	front, err := t.Slice(0, 0, 500, 1)
	e.keep(front, err)
	back, err := t.Slice(0, 500, 1000, 1)
	e.keep(back, err)
	release := func() {}
	if e.props.Capabilities.Has(core.CapAsync) {
		release, _ = e.hold(first)
	}
	third := e.stream()
	e.copy(first, front, e.hostBytes(content[:500]))
	rest := e.hostBytes(content[500:])
	err = e.whileHeld(release, func() error {
		err := e.dev.Copy(e.ctx, second, back, rest)
		_, _ = front.Close(), back.Close()
		return errors.Join(err, e.dev.Copy(e.ctx, third, out, t), third.Synchronize(e.ctx))
	})
	e.check(err, "Copy of memory whose parts are being written")
	e.wantBytes(out, content, "what a reader of the whole got")
}

func caseManyStreams(e *env) {
	const count = 6
	streams := make([]core.Stream, count)
	contents := make([][]byte, count)
	sources, results := make([]*core.Tensor, count), make([]*core.Tensor, count)
	for i := range streams {
		streams[i], contents[i] = e.stream(), e.pattern(3000)
		sources[i], results[i] = e.upload(contents[i]), e.bytes(3000)
	}
	t := e.bytes(3000)
	release, _ := e.hold(streams[0])
	err := e.whileHeld(release, func() error {
		for i, s := range streams { // each writes, and its neighbour reads
			reader := streams[(i+count-1)%count]
			if err := errors.Join(e.dev.Copy(e.ctx, s, t, sources[i]), e.dev.Copy(e.ctx, reader, results[i], t)); err != nil {
				return err
			}
		}
		for _, s := range streams[1:] {
			if err := s.Synchronize(e.ctx); err != nil {
				return err
			}
		}
		return nil
	})
	e.check(err, "Copy on stream after stream")
	e.synchronize(streams[0])
	for i := range results {
		e.wantBytes(results[i], contents[i], "what was read of write %d", i)
	}
}

func caseFailedWrite(e *env) {
	failure := core.Errorf(core.ErrDeviceLost, "backendtest", "write", "a write that fails on purpose")
	s := e.stream()
	src, dst := e.upload(e.pattern(100)), e.bytes(100)
	b, err := src.Buffer()
	e.check(err, "Buffer")
	failed := stream.NewEvent()
	failed.Complete(failure)
	b.Wrote(failed)
	err = e.dev.Copy(e.ctx, s, dst, src)
	if err == nil {
		err = errors.Join(dst.WaitReady(e.ctx), s.Synchronize(e.ctx))
	}
	if !errors.Is(err, failure) {
		e.Errorf("Copy, its event and Synchronize: error %v, want the error of the failed write", err)
	}
}

func caseErrorFollows(e *env) {
	failure := core.Errorf(core.ErrDeviceLost, "backendtest", "write", "a write that fails on purpose")
	src, between, dst := e.upload(e.pattern(100)), e.bytes(100), e.bytes(100)
	b, err := src.Buffer()
	e.check(err, "Buffer")
	pending := stream.NewEvent()
	b.Wrote(pending)
	time.AfterFunc(e.cfg.grace/4, func() { pending.Complete(failure) })
	first, second := e.stream(), e.stream()
	err = e.dev.Copy(e.ctx, first, between, src)
	if err == nil {
		err = e.dev.Copy(e.ctx, second, dst, between)
	}
	if err == nil {
		err = dst.WaitReady(e.ctx)
	}
	if !errors.Is(err, failure) {
		e.Errorf("two copies from the result of a failed write, and the event of the second: error %v, want the error of the write", err)
	}
	_, _ = first.Synchronize(e.ctx), second.Synchronize(e.ctx) // one of them may report it, too
}

func caseOverwriteFailed(e *env) {
	s := e.stream()
	content := e.pattern(100)
	t := e.upload(e.pattern(100))
	b, err := t.Buffer()
	e.check(err, "Buffer")
	failed := stream.NewEvent()
	failed.Complete(core.Errorf(core.ErrDeviceLost, "backendtest", "write", "a write that fails on purpose"))
	b.Wrote(failed)
	e.copy(s, t, e.hostBytes(content))
	e.check(t.WaitReady(e.ctx), "WaitReady")
	e.synchronize(s)
	e.wantBytes(t, content, "what was written over the failed write")
}
