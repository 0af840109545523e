package move

import (
	"context"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// Policy says when a hop copies. The words are those of DLPack's copy argument.
type Policy string

// The policies.
const (
	Never    Policy = "never"     // share memory or fail
	IfNeeded Policy = "if_needed" // share memory if possible
	Always   Policy = "always"    // copy on every hop
)

// Exchange returns the policy as a value of package exchange.
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

// Options are the options of [Route.Carry].
type Options struct {
	Policy   Policy
	Trips    int               // number of trips from the start to the end of the route; less than 1 means 1. Each takes 8 bytes for every hop and 8 for the whole trip
	Verify   bool              // compare the elements after every hop
	Progress func(bytes int64) // called after every hop with the tensor's size; may be nil
}

// Origin is the name of the place where a route starts.
const Origin = "file"

// Report is the result for one tensor.
type Report struct {
	Tensor      string         `json:"tensor"`
	DType       core.DType     `json:"dtype"`
	Shape       []int64        `json:"shape"`
	Bytes       int64          `json:"bytes"`          // of the contiguous elements
	Trips       int            `json:"trips"`          // number of finished trips; after an error, fewer than requested
	Load        *Load          `json:"load,omitempty"` // nil if the elements are used in place
	Hops        []Hop          `json:"hops"`
	BytesCopied int64          `json:"bytes_copied"` // by the load and by all hops of one trip
	Cost                       // of one trip over all hops
	Verified    *bool          `json:"verified"` // nil without Options.Verify
	Mismatch    *MismatchError `json:"mismatch,omitempty"`
}

// Load is the copy of elements from a file into host memory, once before all trips. It is made
// only if the elements cannot be used in place.
type Load struct {
	Reason      string        `json:"reason"` // "compressed", "byte-swapped" or "unaligned"
	BytesCopied int64         `json:"bytes_copied"`
	Time        time.Duration `json:"time_ns"`
}

// SetLoad adds a load to the report. It does nothing if r is nil.
func (r *Report) SetLoad(load Load) {
	if r == nil {
		return
	}
	r.Load = &load
	r.BytesCopied += load.BytesCopied
	if len(r.Hops) > 0 {
		r.Hops[0].From = core.CPU.String()
	}
}

// Cost is the time of the trips. It counts from the call until the elements can be read on the
// device, including the time to allocate and open memory, and without the verification.
type Cost struct {
	Min    time.Duration `json:"min_ns"`
	Median time.Duration `json:"median_ns"`
	Max    time.Duration `json:"max_ns"`
	// GBPerSecond is 10^9 bytes copied in a second at the median time, 0 if nothing was copied.
	GBPerSecond float64 `json:"gb_per_s,omitempty"`
}

// newCost computes the cost from the times of all trips, which it sorts.
func newCost(times []time.Duration, copied int64) Cost {
	if len(times) == 0 {
		return Cost{}
	}
	slices.Sort(times)
	low, high := times[(len(times)-1)/2], times[len(times)/2]
	c := Cost{Min: times[0], Median: low + (high-low)/2, Max: times[len(times)-1]}
	if copied > 0 && c.Median > 0 {
		c.GBPerSecond = float64(copied) / float64(c.Median.Nanoseconds()) // bytes per nanosecond
	}
	return c
}

// Carry moves a tensor in host memory along the route. It returns the tensor at the end of the
// last trip; the caller closes it, and still owns t. With [Never], Carry returns an error if a
// hop has to copy. Otherwise it fails as [exchange.To] does. If elements differ after a hop, it
// returns a [*MismatchError], and the report includes the trip of that hop. After any other
// error, including the end of ctx, the report has the finished trips; it has no hops if there
// are none. Carry returns core.ErrInvalid if r is nil.
func (r *Route) Carry(ctx context.Context, name string, t *core.Tensor, opts Options) (*core.Tensor, Report, error) {
	if err := r.exists("Carry"); err != nil {
		return nil, Report{}, err
	}
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
	want  []byte // the elements at the start, in row-major order
	trips int
	hops  []Hop             // the hops made so far
	times [][]time.Duration // of each hop, then of the whole trip; an entry for every trip
}

// trip moves t along the route once.
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

// forgetTrip removes the results of the last trip, which failed. hops are the hops after the
// trip before it.
func (j *journey) forgetTrip(hops []Hop) {
	j.hops = hops
	j.trips--
	for i, times := range j.times {
		j.times[i] = times[:min(len(times), j.trips)]
	}
}

// report returns the report of the journey, which ended with err.
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
