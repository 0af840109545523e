package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// moved says what differs between two runs, as factors of time.
type moved struct {
	cases     int     // so many are slower by program
	program   float64 // 1.5: they take half as long again
	machine   float64 // of all cases and baselines
	reference float64 // of the reference work
}

// runOf makes a report of 19 cases, of which 8 have baselines, as many as an overview of the host has.
func runOf(rng *rand.Rand, m noise, slower []int, f moved) (r Report) {
	const cases, rounds, samples = 19, 3, 30
	series := func(base float64) (s Series) {
		for range rounds {
			offset := 1 + m.process*rng.NormFloat64()
			for range samples / rounds {
				one := base * offset * (1 + m.sample*rng.ExpFloat64())
				if rng.Float64() < m.tail {
					one *= 1 + m.worst*rng.Float64()
				}
				s.Times = append(s.Times, round(one))
				s.Fastest = append(s.Fastest, round(one*0.98))
				s.Reference = append(s.Reference, round(4000*f.reference*(1+0.01*rng.ExpFloat64())))
			}
			s.Blocks = append(s.Blocks, samples/rounds)
		}
		s.summarize(0)
		return s
	}
	for i := range cases {
		base := f.machine * 50 * float64(int(1)<<i)
		c := Result{Name: fmt.Sprintf("case/%02d", i), Status: OK}
		for b := range 2 * min(1, i/11) { // two baselines for each of the last cases
			one := series(base / float64(1+b))
			one.Baseline = fmt.Sprintf("memcpy, %d threads", 1+b)
			c.Baselines = append(c.Baselines, one)
		}
		if slices.Contains(slower, i) {
			base *= f.program
		}
		c.Series = series(base)
		r.Cases = append(r.Cases, c)
	}
	return r
}

// A loss of the program is found in one case, in few, in most and in all of them, and one of the machine is not called one of the
// program: that is told by other code that ran beside the cases.
func TestALossOfMostCasesIsTheProgramsUnlessOtherCodeHasItToo(t *testing.T) {
	const pairs, tolerance = 200, 0.05
	kinds := []moved{
		{0, 1, 1, 1},
		{1, 1.5, 1, 1}, {3, 1.5, 1, 1}, {10, 1.5, 1, 1}, {15, 1.5, 1, 1}, {19, 1.5, 1, 1},
		{1, 3, 1, 1}, {3, 3, 1, 1}, {10, 3, 1, 1}, {19, 3, 1, 1},
		{0, 1, 1.5, 1}, {0, 1, 3, 1}, {0, 1, 1.5, 1.5}, {0, 1, 3, 3}, {0, 1, 0.5, 1}, {0, 1, 0.5, 0.5}, // the machine's alone
		{1, 1.5, 1.3, 1}, {10, 1.5, 1.3, 1}, {19, 1.5, 1.3, 1}, {19, 3, 0.8, 1}, // both
	}
	for seed := range uint64(pairs) {
		f := kinds[seed%uint64(len(kinds))]
		rng := rand.New(rand.NewPCG(seed, 16))
		slower := rng.Perm(19)[:f.cases]
		m := machines[[]string{"quiet", "usual"}[seed/uint64(len(kinds))%2]]
		old, now := runOf(rng, m, nil, moved{0, 1, 1, 1}), runOf(rng, m, slower, f)
		now.Compare(old, tolerance)
		var found, want []string
		for i, c := range now.Cases {
			if slices.Contains(slower, i) {
				want = append(want, c.Name)
			}
			if c.Change.Slower {
				found = append(found, c.Name)
			}
		}
		if !slices.Equal(found, want) {
			t.Errorf("pair %d, %+v: slower are %v, want %v", seed, f, found, want)
		}
		if all := f.cases == 19; now.Baseline.Common.Slower != all && (all || f.cases < 5) { // of half of the cases it may say either
			t.Errorf("pair %d, %+v: most are slower: %v, want %v", seed, f, !all, all)
		}
	}
}

// A loss that is too small to be found in each case is found in all of them together.
func TestASmallLossOfAllCasesIsFound(t *testing.T) {
	for seed := range uint64(20) {
		for factor, want := range map[float64]bool{1: false, 1.03: false, 1.1: true} {
			rng := rand.New(rand.NewPCG(seed, 17))
			all := rng.Perm(19)
			old, now := runOf(rng, machines["noisy"], nil, moved{0, 1, 1, 1}), runOf(rng, machines["noisy"], all, moved{19, factor, 1, 1})
			if now.Compare(old, 0.05); now.Baseline.Common.Slower != want {
				t.Errorf("seed %d, factor %v: %+v, want %v", seed, factor, now.Baseline.Common, want)
			}
		}
	}
}
