package benchmarks

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// sleepers are cases whose setup takes half a second, and each operation a tenth. The clock is that of synctest.
func sleepers(n int) (cases []Case) {
	for i := range n {
		cases = append(cases, Case{Name: fmt.Sprintf("sleep/%02d", i), setup: func(*env) (trial, error) {
			time.Sleep(500 * time.Millisecond)
			return trial{own: func(n int) (time.Duration, error) {
				d := time.Duration(n) * 100 * time.Millisecond
				time.Sleep(d)
				return d, nil
			}}, nil
		}})
	}
	return cases
}

// A case takes a second at least. So there is no time for all cases, or for all rounds, or for all samples.
func TestABudgetThatIsALimitIsKept(t *testing.T) {
	_ = hostClockError() // it is measured once, and not by the clock of synctest, which stands still
	for budget, want := range map[time.Duration]struct {
		measured  int
		shortened string
	}{
		time.Millisecond: {1, "the budget of 1ms ended the run after 1 of 3 rounds"},
		3 * time.Second:  {3, "the budget of 3s ended the run after 1 of 3 rounds"},
		12 * time.Second: {10, "the budget of 12s ended the run after 1 of 3 rounds"},
		25 * time.Second: {10, "the budget of 25s ended the run after 2 of 3 rounds"},
		60 * time.Second: {10, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			time.Sleep(budget / 100) // what came before the run counts
			r, err := Run(t.Context(), sleepers(10), Options{Samples: 30, Rounds: 3, MaxTime: time.Hour, Budget: budget, Limit: true, Begin: begin})
			if err != nil || len(r.Cases) != 10 || r.Shortened != want.shortened || r.Interrupted {
				t.Fatalf("%v: %d cases, %q, %v", budget, len(r.Cases), r.Shortened, err)
			}
			if took := time.Since(begin); took > budget+budget/5 && budget > time.Second {
				t.Errorf("a budget of %v took %v", budget, took)
			}
			for i, c := range r.Cases {
				switch {
				case i < want.measured && (c.Status != OK || len(c.Times) < 3):
					t.Errorf("%v: %s: %+v", budget, c.Name, c)
				case i >= want.measured && (c.Status != Skipped || c.Reason != fmt.Sprintf("no time was left of the budget of %v", budget)):
					t.Errorf("%v: %s: %+v", budget, c.Name, c)
				}
			}
		})
	}
}

// By turns, fewer rounds than the least say nothing. How long they take is known after the first one.
func TestABudgetTooShortForTheLeastRoundsIsNoted(t *testing.T) {
	for budget, want := range map[time.Duration]bool{time.Millisecond: true, time.Hour: false} {
		told := time.Duration(0)
		b := budgetOf(Options{Budget: budget, Begin: time.Now(), Limit: true, Rounds: 40, TooLong: func(d time.Duration) { told = d }}, true)
		b.next(0, time.Second, true)
		if (told == LeastTurns*time.Second) != want || b.rounds != 40 || b.isOver() {
			t.Errorf("%v: %v, %d rounds", budget, told, b.rounds)
		}
	}
}
