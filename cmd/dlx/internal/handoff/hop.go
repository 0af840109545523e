package handoff

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// Hop is what happened between two neighbouring places of a route. Where trips
// differ, it is what happened in the last of them.
type Hop struct {
	From        string    `json:"from"` // a device, or Origin
	To          string    `json:"to"`
	Mechanism   string    `json:"mechanism"`         // an exchange.Mechanism
	BytesCopied int64     `json:"bytes_copied"`      // in one trip; twice the tensor's size where it was staged
	Cold        int       `json:"cold"`              // trips that opened the memory on the device; later ones found it open
	Wait        string    `json:"wait"`              // how the device's stream was made to wait for the data: a stream.Mechanism
	Refused     []Refusal `json:"refused,omitempty"` // the better ways, and why they were not taken
	Cost
	Verified *bool `json:"verified"` // nil if it was not asked for
}

// Refusal is an [exchange.Refusal] in words.
type Refusal struct {
	Mechanism string `json:"mechanism"`
	What      string `json:"what"`
	Reason    string `json:"reason"`
}

// Refusals puts refusals into words.
func Refusals(refused []exchange.Refusal) []Refusal {
	var list []Refusal
	for _, r := range refused {
		list = append(list, Refusal{r.Mechanism.String(), r.What, r.Reason})
	}
	return list
}

// hop takes t to stop i and notes how. The elements may be read there when it returns.
func (j *journey) hop(ctx context.Context, i int, t *core.Tensor) (*core.Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stop, h := j.stops[i], &j.hops[i]
	next, how, err := exchange.To(ctx, t, stop.device, exchange.Options{
		Copy:   j.opts.Policy.Exchange(),
		Stream: stop.stream,
		Alloc:  j.alloc(i),
	})
	h.Mechanism, h.BytesCopied, h.Wait, h.Refused = how.Mechanism.String(), how.BytesCopied, how.Wait.String(), Refusals(how.Refused())
	if how.Opened && how.Mechanism == exchange.Map { // to import the host's own memory by its address opens nothing
		h.Cold++
	}
	if err == nil {
		if err = next.WaitReady(ctx); err == nil {
			return next, nil
		}
		_ = next.Close()
	}
	// Work that was enqueued may still run although ctx has ended: let it end
	// before the device is closed. It has no other failure to tell of.
	_ = stop.stream.Synchronize(context.WithoutCancel(ctx))
	return nil, err
}

// alloc says what memory stop i needs for a copy, so that the next device can share it.
func (j *journey) alloc(i int) core.AllocOptions {
	if j.opts.Policy == Always {
		return core.AllocOptions{}
	}
	here := j.stops[i].device
	for _, stop := range j.stops[i+1:] {
		if stop.device != here {
			return exchange.AllocFor(here, stop.device)
		}
	}
	return core.AllocOptions{}
}
