package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// Transfer is what `dlx bench --transfer` measures: a chain of moves, or one copy that a certain device makes.
type Transfer struct {
	Devices []core.DeviceID // the source, the devices between, the destination
	// By is the device whose stream makes the copy from the first of two Devices to the second. It is one of them. It is
	// zero for a chain.
	By core.DeviceID
}

// String returns the text that ParseTransfer parses, with the names of the devices.
func (t Transfer) String() string {
	names := make([]string, len(t.Devices))
	for i, id := range t.Devices {
		names[i] = id.String()
	}
	if t.By != (core.DeviceID{}) {
		return "(" + strings.Join(slices.Insert(names, 1, t.By.String()), "->") + ")"
	}
	return strings.Join(names, "->")
}

// ParseTransfer parses a chain of devices, such as "cpu->cuda:0->vulkan:0", by names or UUIDs. Three devices in
// parentheses are the source, the executor and the destination of one copy, as TransferBench writes them: in
// "(cpu->cuda:0->cuda:0)" a stream of cuda:0 copies. The arrow may also be the character U+2192. ParseTransfer returns
// ErrInvalid for other texts, and for an executor by which dlx does not make this copy.
func ParseTransfer(ctx context.Context, r *core.Registry, s string) (Transfer, error) {
	failed := func(format string, args ...any) (Transfer, error) {
		return Transfer{}, core.Errorf(core.ErrInvalid, "benchmarks", "ParseTransfer", format, args...)
	}
	var t Transfer
	text := strings.TrimSpace(s)
	inner, open := strings.CutPrefix(text, "(")
	inner, closed := strings.CutSuffix(inner, ")")
	for name := range strings.SplitSeq(strings.ReplaceAll(inner, "\u2192", "->"), "->") {
		id, err := FindDevice(ctx, r, strings.TrimSpace(name))
		if err != nil {
			why := err.Error()
			if own := new(core.Error); errors.As(err, &own) {
				why = own.Detail
			}
			return failed("%q is not a chain of devices, such as cpu->cuda:0->vulkan:0: %s", s, why)
		}
		t.Devices = append(t.Devices, id)
	}
	switch {
	case open != closed:
		return failed("%q has one parenthesis: write a chain without, and a copy by a certain device as (source->device->destination)", s)
	case len(t.Devices) < 2:
		return failed("%q has one device: a chain, such as cpu->vulkan:0, has two or more", s)
	case open && len(t.Devices) == 3:
		from, by, to := t.Devices[0], t.Devices[1], t.Devices[2]
		if by != from && by != to {
			return failed("%q asks for a copy from %v to %v by %v: dlx copies by a stream of the source or of the destination, so name one of these; without the parentheses it is a chain of two moves", s, from, to, by)
		}
		if by == core.CPU && from != to {
			return failed("%q asks for a copy from %v to %v by the host: dlx copies between the host and a device by a stream of the device, so write (%[2]v->%[4]v->%[3]v)", s, from, to, otherThan(core.CPU, from, to))
		}
		return Transfer{Devices: []core.DeviceID{from, to}, By: by}, nil
	}
	return t, nil
}

// otherThan returns the one of two devices that is not id.
func otherThan(id, a, b core.DeviceID) core.DeviceID {
	if a == id {
		return b
	}
	return a
}

// transferCases are the transfers that were asked for.
func (l *lister) transferCases(ctx context.Context) {
	for _, text := range l.Transfers {
		t, err := ParseTransfer(ctx, l.Registry, text)
		name := t.String()
		if err != nil {
			name = text
		}
		for _, size := range l.buffer(t.Devices...) {
			c := Case{
				Name: "transfer/" + name + size.name, Family: "transfer", Kind: Bandwidth, Size: size.bytes,
				Description: "a tensor moves along a chain of devices, each time by the best way that copies, until the last one has it",
				setup: func(e *env) (trial, error) {
					switch {
					case err != nil:
						return trial{}, err
					case t.By != (core.DeviceID{}):
						return e.copyBy(t, e.bytes(size.bytes))
					default:
						return e.transfer(t.Devices, e.bytes(size.bytes))
					}
				},
			}
			if t.By != (core.DeviceID{}) {
				c.Description = "copies by Device.Copy on a stream of " + t.By.String() + ", one after the other, between memory that is there before"
			}
			if err == nil {
				c.From, c.To = Ends{t.Devices[0]}, Ends{t.Devices[len(t.Devices)-1]}
			}
			l.add(c, false)
		}
	}
}

// copyBy measures the copy of a transfer with an executor, in the same way as the cases that have such a copy.
func (e *env) copyBy(t Transfer, size int64) (trial, error) {
	from, to := t.Devices[0], t.Devices[1]
	if from == to {
		return e.localCopy(t.By, size)
	}
	if from == core.CPU || to == core.CPU {
		d, err := e.open(t.By)
		if err != nil {
			return trial{}, err
		}
		way := toDevice
		if to == core.CPU {
			way = toHost
		}
		return e.hostCopy(t.By, way, e.bestMemory(d), true, size)
	}
	way := reading
	if t.By == from {
		way = writing
	}
	return pairCase(from, to, func(p pair) (trial, error) { return p.deviceCopy(way, false, size) })(e)
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
