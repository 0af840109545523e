package move

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// Hop is the result of the move between two neighboring places of a route. If trips differ, it
// has the result of the last one.
type Hop struct {
	From        string    `json:"from"` // a device, or Origin
	To          string    `json:"to"`
	Mechanism   string    `json:"mechanism"`         // an exchange.Mechanism
	BytesCopied int64     `json:"bytes_copied"`      // in one trip; twice the tensor's size if it was staged
	Cold        int       `json:"cold"`              // number of trips that opened the memory for the device; later trips found it open
	Wait        string    `json:"wait"`              // how the device's stream waited for the data: a stream.Wait
	Refused     []Refusal `json:"refused,omitempty"` // better ways, and why they are not possible
	Cost
	Verified *bool `json:"verified"` // nil without Options.Verify
}

// Refusal is an [exchange.Refusal] as text.
type Refusal struct {
	Mechanism string `json:"mechanism"`
	What      string `json:"what"`
	Reason    string `json:"reason"`
}

// Refusals converts refusals to text.
func Refusals(refused []exchange.Refusal) []Refusal {
	var list []Refusal
	for _, r := range refused {
		list = append(list, Refusal{r.Mechanism.String(), r.What, r.Reason})
	}
	return list
}

// hop moves t to stop i and records the result. When it returns, the elements can be read there.
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
	if how.Opened && how.Mechanism == exchange.Map { // an alias of host memory opens nothing
		h.Cold++
	}
	if err == nil {
		if err = next.WaitReady(ctx); err == nil {
			return next, nil
		}
		_ = next.Close()
	}
	// Work that was enqueued may still run although ctx has ended. Wait for it before the
	// device is closed. Its errors were already reported.
	_ = stop.stream.Synchronize(context.WithoutCancel(ctx))
	return nil, err
}

// alloc returns the options to allocate memory at stop i, so that the next device can share it.
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
