package soak

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// moveAll is exchange.ToAll: moves that differ in their tensors only.
type moveAll struct{ moves []*move }

func (s *moveAll) run(t *thread) error {
	d := t.dev(s.moves[0].dev)
	if d == nil || d.closed {
		return errSkip
	}
	var moves []*move // of tensors that are open
	var vars []*variable
	var srcs []*core.Tensor
	var from, results, reports []string
	for _, m := range s.moves {
		v := t.open(m.of)
		if v == nil {
			continue
		}
		moves, vars, srcs = append(moves, m), append(vars, v), append(srcs, v.tensor)
		from = append(from, fmt.Sprintf("t%d", m.of))
		results, reports = append(results, fmt.Sprintf("&t%d", m.v)), append(reports, fmt.Sprintf("&report%d", m.v))
	}
	if len(moves) == 0 {
		return errSkip
	}
	const call = "exchange.ToAll"
	first := moves[0]
	o, stream := first.options(t, d)
	ctx, ctxName, cancel := t.limited(first.deadline)
	defer cancel()
	after := t.before(vars...)
	t.say("check(parts.ToAll(%s, []*core.Tensor{%s}, %s, %s, []**core.Tensor{%s}, []*exchange.Report{%s}))", ctxName, strings.Join(from, ", "),
		t.devName(d), optionsCode(o, stream, "nil"), strings.Join(results, ", "), strings.Join(reports, ", "))
	tensors, told, err := exchange.ToAll(ctx, srcs, d.Device, o)
	after()
	if err != nil {
		var which *exchange.TensorError
		if !errors.As(err, &which) {
			return t.check(call, err, wants{may: endedIf(first.deadline != 0)})
		}
		return moves[which.Index].judge(t, vars[which.Index], d, o, call, nil, exchange.Report{}, err)
	}
	for i, m := range moves {
		if e := m.judge(t, vars[i], d, o, call, tensors[i], told[i], nil); e != nil {
			err = errors.Join(err, fmt.Errorf("tensor %d: %w", i, e))
		}
	}
	return err
}

// endedIf is ended if a call had a deadline.
func endedIf(deadline bool) []error {
	if deadline {
		return ended
	}
	return nil
}
