package soak

import (
	"errors"
	"fmt"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
)

// over passes a tensor to another process, which sends it back, by package share. What comes back is a copy that the
// other process has made: it received memory that it cannot export, or memory that this process has copied.
type over struct {
	v, of int
	dev   int    // that receives it
	write uint64 // the host writes these elements to the tensor while it is away; 0 is nothing
}

func (s *over) run(t *thread) error {
	v, d := t.open(s.of), t.dev(s.dev)
	if t.world.Peer == nil || v == nil || d == nil || d.closed || d.private {
		return errSkip
	}
	for _, x := range v.involved {
		if x.private { // it cannot close while the connection knows its memory
			return errSkip
		}
	}
	p := v.copied()
	if v.elements() == 0 {
		p = v.clone()
		p.mem = newMemory(v.mem.kind, nil)
		p.bit = 0
	}
	p.mem.kind = Plain
	w := wants{}
	if v.dev == nil && !v.onHost() || v.packed() {
		w.may = append(w.may, core.ErrNotSupported, errNoWay)
	}
	if v.mem.tainted {
		w.may = append(w.may, suspected...)
	}
	var meanwhile func() error
	var written error
	if s.write != 0 {
		meanwhile = func() error {
			// The write waits until the other process has read the elements, if it reads them in this memory.
			if written = (&hostWrite{dst: s.of, seed: s.write}).run(t); errors.Is(written, errSkip) {
				written = nil
			}
			return nil
		}
	}
	after := t.before(v)
	if meanwhile == nil || v.mem.frozen {
		t.say("t%d, err = parts.ThereAndBack(ctx, %s, %s, nil)", s.v, v.name, t.devName(d))
	} else {
		t.say("t%d, err = parts.ThereAndBack(ctx, %s, %s, func() error { return parts.Store(ctx, %s, parts.Items(%s, %d)) })", s.v, v.name, t.devName(d), v.name, v.name, s.write)
	}
	t.say("check(err)")
	tainted := v.mem.tainted
	tensor, sent, received, err := t.world.Peer.Over(t.ctx, v.tensor, d.Device, meanwhile)
	after()
	option := "shared"
	switch {
	case err != nil:
		option = "process" + refused
	case sent.Mechanism.Copies() > 0:
		option = "copied"
	}
	t.cover(v.mem.kind, "over", d, option)
	if written != nil {
		tensor.Close()
		return fmt.Errorf("while the tensor was away: %w", written)
	}
	if e := t.check("Over", err, w); e != nil || err != nil {
		return e
	}
	p.mem.tainted = p.mem.tainted || tainted
	if v.elements() == 0 {
		p.strides = tensor.Layout().Strides()
	}
	n, err := t.add(s.v, p, tensor, d, nil)
	if err != nil {
		return fmt.Errorf("what came back: %w", err)
	}
	return s.truth(v, n, sent, received)
}

// truth compares the reports with what happened.
func (s *over) truth(v, n *variable, sent, received parts.Report) error {
	if v.elements() == 0 {
		if sent.BytesCopied != 0 || received.BytesCopied != 0 {
			return fmt.Errorf("nothing could be copied: %+v, %+v", sent, received)
		}
		return nil
	}
	for _, r := range []parts.Report{sent, received} {
		bytes := v.elements() * v.width() / 8
		if v.packed() {
			low, high := v.reach()
			bytes = high - low
		}
		switch copies := r.Mechanism.Copies(); {
		case r.Mechanism == 0 || r.BytesCopied != copies*bytes:
			return fmt.Errorf("the report says %v and %d bytes copied, and the elements have %d bytes", r.Mechanism, r.BytesCopied, bytes)
		case copies > 0 && len(r.Refused()) == 0:
			return fmt.Errorf("the report does not say why it copies by %v", r.Mechanism)
		}
	}
	if received.To != n.dev.ID() {
		return fmt.Errorf("the tensor came to %v, and its report says %v", n.dev.ID(), received.To)
	}
	return nil
}
