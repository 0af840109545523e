package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// ParseTransfer parses a chain of devices, such as "cpu->cuda:0->vulkan:0", by names or UUIDs. The arrow may also be the
// character U+2192.
func ParseTransfer(ctx context.Context, r *core.Registry, s string) ([]core.DeviceID, error) {
	var chain []core.DeviceID
	for name := range strings.SplitSeq(strings.ReplaceAll(strings.Trim(s, "() "), "\u2192", "->"), "->") {
		id, err := FindDevice(ctx, r, strings.TrimSpace(name))
		if err != nil {
			why := err.Error()
			if own := new(core.Error); errors.As(err, &own) {
				why = own.Detail
			}
			return nil, core.Errorf(core.ErrInvalid, "benchmarks", "ParseTransfer", "%q is not a chain of devices, such as cpu->cuda:0->vulkan:0: %s", s, why)
		}
		chain = append(chain, id)
	}
	if len(chain) < 2 {
		return nil, core.Errorf(core.ErrInvalid, "benchmarks", "ParseTransfer", "%q has one device: a chain, such as cpu->vulkan:0, has two or more", s)
	}
	return chain, nil
}

// transferCases are the chains that were asked for.
func (l *lister) transferCases(ctx context.Context) {
	for _, text := range l.Transfers {
		chain, err := ParseTransfer(ctx, l.Registry, text)
		var names []string
		for _, id := range chain {
			names = append(names, id.String())
		}
		if err != nil {
			names = []string{text}
		}
		for _, size := range l.buffer(chain...) {
			c := Case{
				Name: "transfer/" + strings.Join(names, "->") + size.name, Family: "transfer", Kind: Bandwidth, Size: size.bytes,
				Description: "a tensor moves along a chain of devices, each time by the best way that copies, until the last one has it",
				setup: func(e *env) (trial, error) {
					if err != nil {
						return trial{}, err
					}
					return e.transfer(chain, e.bytes(size.bytes))
				},
			}
			if err == nil {
				c.From, c.To = Ends{chain[0]}, Ends{chain[len(chain)-1]}
			}
			l.add(c, false)
		}
	}
}

// transfer moves a tensor from the first device of a chain to the last one.
func (e *env) transfer(chain []core.DeviceID, size int64) (trial, error) {
	devices := make([]core.Device, len(chain))
	for i, id := range chain {
		d, err := e.open(id)
		if err != nil {
			return trial{}, err
		}
		devices[i] = d
	}
	src, err := e.onDevice(devices[0], core.AllocOptions{}, size, sentSeed)
	if err != nil {
		return trial{}, err
	}
	t := trial{bytes: size}
	// along returns the tensor on the last device. Each tensor between is closed when the next one is there.
	along := func(note func(exchange.Report)) (*core.Tensor, error) {
		at := src.tensor
		for _, d := range devices[1:] {
			next, report, err := e.move(at, d, exchange.Options{Copy: exchange.Always})
			if at != src.tensor {
				_ = at.Close()
			}
			if err != nil {
				return nil, err
			}
			if note != nil {
				note(report)
			}
			at = next
		}
		if err := at.WaitReady(e.ctx); err != nil {
			_ = at.Close()
			return nil, err
		}
		return at, nil
	}
	last, err := along(func(r exchange.Report) {
		t.notes = append(t.notes, fmt.Sprintf("%v -> %v: %v", r.From, r.To, r.Mechanism))
		t.refused = append(t.refused, r.Refused()...)
	})
	if err != nil {
		return trial{}, err
	}
	if err := last.Close(); err != nil {
		return trial{}, err
	}
	t.way = fmt.Sprintf("%d moves", len(chain)-1)
	t.own = repeat(func() error {
		last, err := along(nil)
		if err != nil {
			return err
		}
		return last.Close()
	})
	t.verify = func() (*Mismatch, error) {
		last, err := along(nil)
		if err != nil {
			return nil, err
		}
		defer last.Close()
		return e.check(arrivedAt(devices[len(devices)-1], last), sentSeed, sentSeed+beforeSeed)
	}
	return t, nil
}
