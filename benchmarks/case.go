package benchmarks

import (
	"time"

	"github.com/dlx-go/dlx/exchange"
)

// Case is one operation to measure.
type Case struct {
	Name        string // "copy/transpose/float32": from the general to the special
	Description string
	Family      string // see [Result], as for the fields below
	Kind        Kind
	From, To    Ends
	Memory      string
	Size        int64
	Streams     int
	Extra       bool   // it is measured only if it is asked for
	Target      Target // the target of the measurement; the zero Target if it has none

	// setup makes what the operation needs and leaves its release with [env.cleanup].
	// An error that wraps core.ErrNotSupported makes the case unsupported, one that
	// wraps core.ErrOutOfMemory makes it skipped.
	setup func(*env) (trial, error)
}

// trial is a case that is ready to be measured.
type trial struct {
	bytes      int64  // that one operation moves; 0 where it moves none
	way        string // the mechanism that was chosen, where there was a choice
	refused    []exchange.Refusal
	clock      Clock         // HostClock if it is empty
	resolution time.Duration // how far a sample may be wrong because of the clock, if more than the host's clock
	memory     string        // [Result.Memory], where that is known only now
	notes      []string      // what a reader of the result should know
	// from, to and streams are those that take part, if not all of the case can.
	from, to Ends
	streams  int
	// verify, if not nil, compares what arrived with what was sent, after the last sample.
	verify    func() (*Mismatch, error)
	own       sampler
	baselines []baseline
}

// baseline is what a case is measured beside.
type baseline struct {
	name   string
	sample sampler
	reason string // why there is no sampler
}

// sampler does its operation n times and returns how long that took.
type sampler func(n int) (time.Duration, error)

// timed makes a sampler of a loop.
func timed(loop func(n int) error) sampler {
	return func(n int) (time.Duration, error) {
		start := time.Now()
		err := loop(n)
		return time.Since(start), err
	}
}

// repeat makes a sampler of an operation that takes so long that the call through
// a variable, of a nanosecond or two, does not count.
func repeat(op func() error) sampler {
	return timed(func(n int) error {
		for range n {
			if err := op(); err != nil {
				return err
			}
		}
		return nil
	})
}
