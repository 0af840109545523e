package soak

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// This file compares the reports of moves with what happened.

// truth compares a report with what happened.
func (s *move) truth(v, n *variable, r exchange.Report, o exchange.Options) error {
	copies := r.Mechanism.Copies()
	if n.elements() == 0 {
		if r.BytesCopied != 0 {
			return errors.New("nothing could be copied")
		}
		return nil
	}
	bytes := v.elements() * v.width() / 8
	if v.packed() {
		low, high := v.reach()
		bytes = high - low
	}
	switch {
	case r.Mechanism == 0:
		return errors.New("there is no mechanism")
	case s.copy == exchange.Always && copies == 0:
		return errors.New("the memory is shared, and was to be copied")
	case s.copy == exchange.Never && copies != 0:
		return errors.New("the memory was copied, and was to be shared")
	case s.only != 0 && r.Mechanism != s.only:
		return fmt.Errorf("only %v was allowed", s.only)
	case r.BytesCopied != copies*bytes:
		return fmt.Errorf("the copy has %d bytes", copies*bytes)
	case r.From != v.tensor.DeviceID() && r.From != v.root.Memory().ID:
		return fmt.Errorf("the source lies on %v, and what it was made of on %v", v.tensor.DeviceID(), v.root.Memory().ID)
	case r.To != n.dev.ID():
		return fmt.Errorf("the device is %v", n.dev.ID())
	case len(r.Steps()) == 0:
		return errors.New("there are no steps")
	}
	sum := int64(0)
	for _, step := range r.Steps() {
		sum += step.Bytes
	}
	if sum != r.BytesCopied {
		return fmt.Errorf("the steps copy %d bytes", sum)
	}
	for _, f := range r.Refused() {
		if f.Reason == "" || f.What == "" || f.Mechanism == 0 {
			return fmt.Errorf("refused %+v says too little", f)
		}
	}
	if v.onHost() && n.onHost() {
		a, err := v.tensor.Address()
		if err != nil {
			return err
		}
		b, err := n.tensor.Address()
		if err != nil {
			return err
		}
		if (a == b) != (copies == 0) {
			return fmt.Errorf("the elements lie at %#x and %#x", a, b)
		}
	}
	if copies > 0 && n.root == v.root {
		return errors.New("a copy keeps the order of its source")
	}
	if route, err := exchange.Plan(v.tensor, n.dev.Device, o); err == nil && route.Mechanism == r.Mechanism && slices.Equal(route.Steps(), r.Steps()) {
		// A plan finds out that the host cannot write the memory of a read-only tensor, and does not map it. A move tries to, and
		// the device may have another reason to refuse.
		tried := v.root.ReadOnly()
		same := func(a, b exchange.Refusal) bool {
			return a == b || tried && a.Mechanism == exchange.Map && a.Mechanism == b.Mechanism && a.What == b.What
		}
		if !slices.EqualFunc(route.Refused(), r.Refused(), same) {
			return fmt.Errorf("a plan of the same way refuses %+v", route.Refused())
		}
	}
	return nil
}

// waited compares what a report says of the waiting with the order of the result.
func (s *move) waited(n *variable, r exchange.Report, o exchange.Options) error {
	if o.Stream == nil {
		if r.Wait != stream.NoWait {
			return errors.New("there is no stream that could wait")
		}
		return nil
	}
	switch r.Wait {
	case stream.StreamWait:
	case stream.SemaphoreWait:
		if o.SourceStream == nil || o.SourceStream.Device() == o.Stream.Device() {
			return errors.New("there are no two devices that could share a semaphore")
		}
	case stream.NoWait, stream.HostWait:
		// On memory that all threads have, another one may have put an event of its streams in the place of the write's.
		if e := n.tensor.Ready(); e != nil && !n.mem.frozen {
			if done, _ := e.Done(); !done {
				return errors.New("the write of the result is not done")
			}
		}
	default:
		return errors.New("there is no such way to wait")
	}
	return nil
}

// reopened proves that what a move has opened is open, and is found by the next one.
func (t *thread) reopened(v, n *variable, r exchange.Report) error {
	switch {
	case !r.Opened:
		return nil
	case core.Live()["exchange.Opened"] == 0:
		return errors.New("nothing is open")
	case r.Mechanism.Copies() > 0 || v.mem.tainted: // memory that a copy has opened may be closed by now
		return nil
	}
	again, next, err := exchange.To(t.ctx, v.tensor, n.dev.Device, exchange.Options{Copy: exchange.Never})
	if err != nil {
		if t.world.Tight && isShortage(err) {
			return nil
		}
		return fmt.Errorf("the next move: %w", err)
	}
	defer again.Close()
	if next.Opened {
		return fmt.Errorf("the next move opens it once more: %+v", next)
	}
	return nil
}
