package handoff

import (
	"context"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// Policy says when a hop may copy; the words are those of DLPack's copy argument.
type Policy string

// The policies.
const (
	Never    Policy = "never"     // share memory or fail
	IfNeeded Policy = "if_needed" // share memory where that is possible
	Always   Policy = "always"    // copy on every hop
)

// Exchange is the policy in the terms of package exchange.
func (p Policy) Exchange() exchange.Copy {
	switch p {
	case Never:
		return exchange.Never
	case Always:
		return exchange.Always
	default:
		return exchange.IfNeeded
	}
}

// Options say how a tensor travels.
type Options struct {
	Policy   Policy
	Trips    int               // how often the route is travelled, each time from the start; less than 1 means once. Each keeps 8 bytes for every hop and 8 for the whole
	Verify   bool              // compare the elements after every hop
	Progress func(bytes int64) // called after every hop with the tensor's size; may be nil
}

// Origin is the name of the place that a route starts from.
const Origin = "file"

// Report is what happened to one tensor.
type Report struct {
	Tensor      string         `json:"tensor"`
	DType       core.DType     `json:"dtype"`
	Shape       []int64        `json:"shape"`
	Bytes       int64          `json:"bytes"`          // of the elements in a row
	Trips       int            `json:"trips"`          // that were made; fewer than asked for after an error
	Load        *Load          `json:"load,omitempty"` // nil if the elements are used where they lie in the file
	Hops        []Hop          `json:"hops"`
	BytesCopied int64          `json:"bytes_copied"` // by the load, and in one trip over all hops
	Cost                       // of one trip, over all hops
	Verified    *bool          `json:"verified"` // nil if it was not asked for
	Mismatch    *MismatchError `json:"mismatch,omitempty"`
}

// Load is the copy that brings elements from a file into host memory, once before all
// trips, where they cannot be used as they lie in the file.
type Load struct {
	Reason      string        `json:"reason"` // "compressed" or "unaligned"
	BytesCopied int64         `json:"bytes_copied"`
	Time        time.Duration `json:"time_ns"`
}

// SetLoad notes that the elements did not lie in host memory at first.
func (r *Report) SetLoad(load Load) {
	r.Load = &load
	r.BytesCopied += load.BytesCopied
	if len(r.Hops) > 0 {
		r.Hops[0].From = core.CPU.String()
	}
}

// Cost is what the trips took, verification apart: from the call until the elements
// may be read on the device, what was allocated and opened for them included.
type Cost struct {
	Min    time.Duration `json:"min_ns"`
	Median time.Duration `json:"median_ns"`
	Max    time.Duration `json:"max_ns"`
	// GBPerSecond is 10^9 bytes copied in a second at the median time, 0 if nothing was copied.
	GBPerSecond float64 `json:"gb_per_s,omitempty"`
}

// newCost sums up the times of all trips, which it sorts.
func newCost(times []time.Duration, copied int64) Cost {
	if len(times) == 0 {
		return Cost{}
	}
	slices.Sort(times)
	low, high := times[(len(times)-1)/2], times[len(times)/2]
	c := Cost{Min: times[0], Median: low + (high-low)/2, Max: times[len(times)-1]}
	if copied > 0 && c.Median > 0 {
		c.GBPerSecond = float64(copied) / float64(c.Median.Nanoseconds()) // bytes a nanosecond
	}
	return c
}

// Carry takes a tensor in host memory along the route. It returns the tensor at
// the end of the last trip, which the caller closes; t stays the caller's. With
// [Never] it fails where a hop would have to copy, otherwise like [exchange.To].
// If the elements did not survive a hop it fails with a [*MismatchError], and the
// report tells of the trips up to there. After any other error, the end of ctx included,
// the report tells of the trips before the one that failed; it has no hops if that was
// the first.
func (r *Route) Carry(ctx context.Context, name string, t *core.Tensor, opts Options) (*core.Tensor, Report, error) {
	j := journey{Route: r, name: name, opts: opts, times: make([][]time.Duration, len(r.stops)+1)}
	if opts.Verify {
		var err error
		if j.want, err = rowMajor(t); err != nil {
			return nil, Report{}, err
		}
	}
	for {
		whole := slices.Clone(j.hops)
		last, err := j.trip(ctx, t)
		if err != nil && asMismatch(err) == nil {
			j.forgetTrip(whole)
		}
		if err != nil || j.trips >= opts.Trips {
			return last, j.report(t, err), err
		}
		last.Close()
	}
}

// journey is the state of one call of Carry.
type journey struct {
	*Route
	name  string
	opts  Options
	want  []byte // the elements as they left, in row-major order
	trips int
	hops  []Hop             // those made so far
	times [][]time.Duration // of each hop, then of the whole trip; an entry for every trip
}

// trip takes t along the route once.
func (j *journey) trip(ctx context.Context, t *core.Tensor) (*core.Tensor, error) {
	j.trips++
	current, err := t.Share()
	if err != nil {
		return nil, err
	}
	var total time.Duration
	from := Origin
	for i, stop := range j.stops {
		if i == len(j.hops) {
			j.hops = append(j.hops, Hop{From: from, To: stop.device.ID().String()})
		}
		start := time.Now()
		next, err := j.hop(ctx, i, current)
		elapsed := time.Since(start)
		current.Close()
		if err != nil {
			return nil, err
		}
		j.times[i] = append(j.times[i], elapsed)
		total += elapsed
		if err := j.verify(ctx, i, next); err != nil {
			next.Close()
			return nil, err
		}
		if j.opts.Progress != nil {
			j.opts.Progress(t.NumBytes())
		}
		current, from = next, j.hops[i].To
	}
	j.times[len(j.stops)] = append(j.times[len(j.stops)], total)
	return current, nil
}

// forgetTrip takes back what the last trip, which failed, has noted; hops are those after
// the trip before it.
func (j *journey) forgetTrip(hops []Hop) {
	j.hops = hops
	j.trips--
	for i, times := range j.times {
		j.times[i] = times[:min(len(times), j.trips)]
	}
}

// report sums up the journey, which ended with err.
func (j *journey) report(t *core.Tensor, err error) Report {
	rep := Report{
		Tensor: j.name,
		DType:  t.DType(),
		Shape:  t.Layout().AppendShape([]int64{}),
		Bytes:  t.NumBytes(),
		Trips:  j.trips,
		Hops:   j.hops,
	}
	for i := range j.hops {
		h := &j.hops[i]
		h.Cost = newCost(j.times[i], h.BytesCopied)
		rep.BytesCopied += h.BytesCopied
	}
	rep.Cost = newCost(j.times[len(j.stops)], rep.BytesCopied)
	if j.opts.Verify {
		rep.Mismatch = asMismatch(err)
		intact := rep.Mismatch == nil
		rep.Verified = &intact
	}
	return rep
}
