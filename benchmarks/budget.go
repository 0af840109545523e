package benchmarks

import (
	"fmt"
	"time"
)

// budget divides the time of a run among its rounds.
type budget struct {
	Options
	rounds    int       // in all
	limit     bool      // no case begins later
	until     time.Time // the end of the current round
	shortened string
}

func budgetOf(opts Options, byTurns bool) *budget {
	return &budget{Options: opts, rounds: opts.Rounds, limit: opts.Limit && !byTurns}
}

// begin sets until.
func (b *budget) begin(round int) {
	share := b.Budget / time.Duration(b.Rounds) * time.Duration(round+1)
	if b.limit { // what earlier rounds took too long, or not at all, is that of all later ones
		gone := time.Since(b.Begin)
		share = gone + (b.Budget-gone)/time.Duration(b.rounds-round)
	}
	b.until = b.Begin.Add(share)
}

// isOver reports whether no more case may begin.
func (b *budget) isOver() bool { return b.limit && b.Budget > 0 && time.Since(b.Begin) >= b.Budget }

// next leaves out later rounds for which there is no time, after one that took so long.
func (b *budget) next(round int, took time.Duration, byTurns bool) {
	left := b.Budget - time.Since(b.Begin)
	switch rounds := b.rounds; {
	case b.Budget == 0:
	case byTurns:
		if whole := LeastTurns * took; round == 0 && whole > b.Budget && b.TooLong != nil {
			b.TooLong(whole)
		}
		if round+1 >= LeastTurns && left < 0 {
			b.rounds = round + 1
		}
	case b.limit && time.Until(b.until) < -took/10: // it could not be made as short as its share
		if b.rounds = min(rounds, round+1+int(max(0, left)/took)); b.rounds < rounds {
			b.shortened = fmt.Sprintf("the budget of %v ended the run after %d of %d rounds", b.Budget, b.rounds, b.Rounds)
		}
	}
}
