package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlx-go/dlx/core"
)

// series is one of several operations that are measured by turns.
type series struct {
	name   string
	sample func(n int) (time.Duration, error) // does the operation n times
	err    error                              // why there are no samples
	n      int                                // operations in a sample
	times  []float64                          // of one operation, in ns, by rounds
}

// byTurns takes a sample of each series in each round, in an order that changes from round to round. A machine that is
// slow for a while is then slow for all. A series that fails is left out from there on, and keeps its error. byTurns
// itself fails only with ctx's error.
func byTurns(ctx context.Context, rounds int, length time.Duration, all []*series) error {
	for _, s := range all {
		if s.err == nil {
			s.calibrate(length)
		}
	}
	for round := range rounds {
		for turn := range all {
			if err := ctx.Err(); err != nil {
				return err
			}
			s := all[(turn+round)%len(all)]
			if s.err != nil {
				continue
			}
			d, err := s.sample(s.n)
			if err != nil {
				s.err = fmt.Errorf("%s: %w", s.name, err)
				continue
			}
			s.times = append(s.times, float64(d)/float64(s.n))
		}
	}
	return ctx.Err()
}

// calibrate warms up, and finds how many operations take as long as a sample is to take.
func (s *series) calibrate(length time.Duration) {
	const most = 1 << 24
	for s.n = 1; ; {
		d, err := s.sample(s.n)
		if err != nil {
			s.err = fmt.Errorf("%s: %w", s.name, err)
			return
		}
		if d >= length || s.n >= most {
			return
		}
		// A short run foretells little of a long one.
		s.n = min(most, max(s.n+1, min(100*s.n, int(1.1*float64(s.n)*float64(length)/float64(max(d, 1))))))
	}
}

// perSecond makes GB/s of the times.
func (s *series) perSecond(bytes int64) []float64 {
	out := make([]float64, len(s.times))
	for i, ns := range s.times {
		out[i] = float64(bytes) / ns
	}
	return out
}

// refusal is an error that says the status of a row.
type refusal struct {
	status Status
	error
}

// notInstalled is the error of a peer that is not here.
func notInstalled(format string, args ...any) error {
	return refusal{Skipped, fmt.Errorf(format, args...)}
}

// notNow is the error of what this machine can do at another time.
func notNow(format string, args ...any) error { return refusal{Skipped, fmt.Errorf(format, args...)} }

// notSupported is the error of what this machine or the peer cannot do.
func notSupported(format string, args ...any) error {
	return refusal{Unsupported, fmt.Errorf(format, args...)}
}

func statusOf(err error) Status {
	var r refusal
	switch {
	case errors.As(err, &r):
		return r.status
	case errors.Is(err, core.ErrNotSupported):
		return Unsupported
	case errors.Is(err, core.ErrOutOfMemory):
		return Skipped
	default:
		return Failed
	}
}
