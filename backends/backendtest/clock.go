package backendtest

import (
	"errors"
	"time"

	"github.com/dlx-go/dlx/core"
)

var clockCases = []Case{
	{
		Name:  "clock/after-the-work",
		Rule:  "core.DeviceClock.Mark: the clock is read when all work enqueued before is done; Since fails with ErrInvalid before",
		Needs: core.CapDeviceClock,
		run:   caseMarkAfterWork,
	},
	{
		Name:  "clock/before-later-work",
		Rule:  "core.DeviceClock.Mark: the clock is read before work that is enqueued later begins",
		Needs: core.CapDeviceClock,
		run:   caseMarkBeforeWork,
	},
	{
		Name:  "clock/measures",
		Rule:  "core.Mark.Since: the time on the device, which is at most what the host sees around the readings and at least what it sees between them",
		Needs: core.CapDeviceClock,
		run:   caseMarkMeasures,
	},
	{
		Name:  "clock/sign",
		Rule:  "core.Mark.Since: negative if the earlier mark was read later, 0 for the mark itself; times of a stream add up within ClockResolution",
		Needs: core.CapDeviceClock,
		run:   caseMarkSign,
	},
	{
		Name:  "clock/refused",
		Rule:  "core.DeviceClock.Mark: fails with ErrDevice for no stream and one of another device, and with ErrClosed for a closed one; Since fails with ErrDevice for no mark and one of another device",
		Needs: core.CapDeviceClock,
		run:   caseMarkRefused,
	},
	{
		Name:  "clock/plain-stream",
		Rule:  "core.DeviceClock.Mark: a stream of NewStream is timed, or refused with ErrNotSupported",
		Needs: core.CapDeviceClock,
		run:   caseMarkPlainStream,
	},
	{
		Name:  "clock/close",
		Rule:  "core.Mark.Close: does not wait, and does nothing the second time; Since then fails with ErrClosed, and the event goes on",
		Needs: core.CapDeviceClock,
		run:   caseMarkClose,
	},
	{
		Name:  "clock/lifetime",
		Rule:  "core.Mark: outlives its stream, and keeps the device open",
		Needs: core.CapDeviceClock,
		run:   caseMarkLifetime,
	},
}

// timedStream opens a stream that can be timed, and closes it when the case is over.
func (e *env) timedStream() core.Stream {
	e.Helper()
	s, err := as[core.DeviceClock](e).NewTimedStream(e.ctx)
	e.check(err, "NewTimedStream")
	e.Cleanup(func() {
		if err := s.Close(); err != nil {
			e.Errorf("Close of a stream of NewTimedStream: %v", err)
		}
	})
	return s
}

// mark marks a stream, and closes the mark when the case is over.
func (e *env) mark(s core.Stream) core.Mark {
	e.Helper()
	m, err := as[core.DeviceClock](e).Mark(s)
	e.check(err, "Mark")
	e.Cleanup(func() { e.closeMark(m) })
	return m
}

func (e *env) closeMark(m core.Mark) {
	e.Helper()
	if err := m.Close(); err != nil {
		e.Errorf("Close of a mark: %v", err)
	}
}

// reached waits until the clock was read.
func (e *env) reached(m core.Mark) {
	e.Helper()
	e.check(m.Event().Wait(e.ctx), "Wait for the event of a mark")
}

// since returns the time between two marks whose clocks were read.
func (e *env) since(m, earlier core.Mark) time.Duration {
	e.Helper()
	d, err := m.Since(earlier)
	e.check(err, "Since")
	return d
}

// sinceHeld is since for marks between which the stream was held back. known is false if the device does not compare them then.
func (e *env) sinceHeld(m, earlier core.Mark) (d time.Duration, known bool) {
	e.Helper()
	d, err := m.Since(earlier)
	if errors.Is(err, core.ErrNotSupported) {
		e.wantError(err, core.ErrNotSupported, "Since")
		return 0, false
	}
	e.check(err, "Since")
	return d, true
}

// deviation is how far a time of the device may be from that of the host: the steps of the clock, and a hundredth for
// clocks that do not run at the same speed.
func (e *env) deviation(d time.Duration) time.Duration {
	return 2*as[core.DeviceClock](e).ClockResolution() + d/100
}

func caseMarkAfterWork(e *env) {
	s := e.timedStream()
	first := e.mark(s)
	e.reached(first)
	release, sure := e.hold(s)
	last := e.mark(s)
	time.Sleep(e.cfg.grace)
	if sure {
		if e.isDone(last.Event()) {
			e.Errorf("the clock was read before the work that was enqueued earlier")
		}
		_, err := last.Since(first)
		e.wantError(err, core.ErrInvalid, "Since of a mark whose clock was not read")
		_, err = first.Since(last)
		e.wantError(err, core.ErrInvalid, "Since a mark whose clock was not read")
	}
	release()
	e.reached(last)
	e.sinceHeld(last, first)
}

func caseMarkBeforeWork(e *env) {
	s := e.timedStream()
	start := time.Now()
	first := e.mark(s)
	release, sure := e.hold(s)
	last := e.mark(s)
	e.reached(first)
	reached := time.Now()
	time.Sleep(e.cfg.grace)
	held := time.Since(reached)
	release()
	e.reached(last)
	whole := time.Since(start)
	if took, ok := e.sinceHeld(last, first); ok && sure && took < held-e.deviation(whole) {
		e.Errorf("work was held back for %v after the first mark, but the marks are %v apart", held, took)
	}
}

func caseMarkMeasures(e *env) {
	if step := as[core.DeviceClock](e).ClockResolution(); step <= 0 || step > time.Millisecond {
		e.Errorf("ClockResolution is %v", step)
	}
	s := e.timedStream()
	src, dst := e.upload(e.pattern(1<<16)), e.bytes(1<<16)
	start := time.Now()
	first := e.mark(s)
	e.reached(first)
	firstReached := time.Now()
	e.copy(s, dst, src)
	e.synchronize(s)
	time.Sleep(e.cfg.grace)
	inside := time.Since(firstReached)
	last := e.mark(s)
	e.reached(last)
	whole := time.Since(start)
	took := e.since(last, first)
	if took > whole+e.deviation(whole) {
		e.Errorf("%v on the device, but %v on the host", took, whole)
	}
	if took < inside-e.deviation(whole) {
		e.Errorf("%v on the device, but %v on the host, between the readings", took, inside)
	}
}

func caseMarkSign(e *env) {
	s := e.timedStream()
	var marks []core.Mark
	for range 3 {
		marks = append(marks, e.mark(s))
		e.synchronize(s)
		time.Sleep(e.cfg.grace / 4)
	}
	first, middle, last := marks[0], marks[1], marks[2]
	step := as[core.DeviceClock](e).ClockResolution()
	near := func(a, b time.Duration) bool { return max(a-b, b-a) <= 2*step+max(a, -a)/1000 }
	if d := e.since(first, first); d != 0 {
		e.Errorf("a mark is %v after itself", d)
	}
	whole := e.since(last, first)
	if whole <= 0 {
		e.Errorf("the last mark is %v after the first", whole)
	}
	if back := e.since(first, last); !near(back, -whole) {
		e.Errorf("the last mark is %v after the first, and the first %v after the last", whole, back)
	}
	if sum := e.since(middle, first) + e.since(last, middle); !near(sum, whole) {
		e.Errorf("the two parts of %v add up to %v", whole, sum)
	}
}

// strangeMark is a mark of another device.
type strangeMark struct{ core.Mark }

func caseMarkRefused(e *env) {
	clock, s := as[core.DeviceClock](e), e.timedStream()
	mark := func(s core.Stream) error {
		m, err := clock.Mark(s)
		if err == nil {
			e.closeMark(m)
		}
		return err
	}
	e.wantError(mark(nil), core.ErrDevice, "Mark of no stream")
	e.wantError(mark(strangeStream{s}), core.ErrDevice, "Mark of a stream of another device")
	m := e.mark(s)
	e.reached(m)
	_, err := m.Since(nil)
	e.wantError(err, core.ErrDevice, "Since no mark")
	_, err = m.Since(strangeMark{m})
	e.wantError(err, core.ErrDevice, "Since a mark of another device")
	e.check(s.Close(), "Close")
	e.wantError(mark(s), core.ErrClosed, "Mark of a closed stream")
}

// strangeStream is a stream of another device.
type strangeStream struct{ core.Stream }

func (strangeStream) Device() core.Device { return nil }

func caseMarkPlainStream(e *env) {
	s := e.stream()
	m, err := as[core.DeviceClock](e).Mark(s)
	if err != nil {
		e.wantError(err, core.ErrNotSupported, "Mark of a stream of NewStream")
		return
	}
	defer e.closeMark(m)
	e.synchronize(s)
	_, err = m.Since(m)
	e.check(err, "Since of a mark on a stream of NewStream")
}

func caseMarkClose(e *env) {
	s := e.timedStream()
	open, m := e.mark(s), e.mark(s)
	release, _ := e.hold(s)
	early := e.mark(s)
	ev := early.Event()
	e.check(e.finish(e.start(early.Close)), "Close of a mark whose clock was not read")
	release()
	e.check(ev.Wait(e.ctx), "Wait for the event of a closed mark")
	e.reached(m)
	e.closeMark(m)
	e.closeMark(m)
	_, err := m.Since(open)
	e.wantError(err, core.ErrClosed, "Since of a closed mark")
	_, err = open.Since(m)
	e.wantError(err, core.ErrClosed, "Since a closed mark")
	_, err = early.Since(open)
	e.wantError(err, core.ErrClosed, "Since of a mark that was closed early")
}

func caseMarkLifetime(e *env) {
	clock := as[core.DeviceClock](e)
	s := e.timedStream()
	first, last := e.mark(s), e.mark(s)
	e.check(s.Close(), "Close of the stream")
	e.since(last, first)
	e.closeMark(first)
	e.wantError(e.dev.Close(), core.ErrInvalid, "Close of a device with an open mark")
	e.since(last, last)
	e.closeMark(last)
	var err error
	eventually(e.cfg.Timeout, func() bool { err = e.dev.Close(); return !errors.Is(err, core.ErrInvalid) })
	e.check(err, "Close of the device")
	again, err := clock.NewTimedStream(e.ctx)
	if err == nil {
		_ = again.Close()
	}
	e.wantError(err, core.ErrClosed, "NewTimedStream of a closed device")
	_, err = clock.Mark(s)
	e.wantError(err, core.ErrClosed, "Mark on a closed device")
}
