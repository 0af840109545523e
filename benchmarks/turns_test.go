package benchmarks

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// byTurns makes the reports of two programs that were measured by turns on a machine whose speed also changes from round to round by
// up to a factor of two, for both. The cases called slower take longer in the first program.
func byTurns(rng *rand.Rand, m noise, cases, rounds int, slower map[string]float64) (now, old Report) {
	for i := range cases {
		c := [2]Result{{Name: fmt.Sprintf("case/%d", i), Status: OK}}
		c[1] = c[0]
		for range rounds {
			speed := 100 * (1 + rng.Float64())
			for side := range c {
				base := speed * (1 + m.process*rng.NormFloat64())
				if side == 0 {
					base *= 1 + slower[c[0].Name]
				}
				for range 5 {
					t := base * math.Exp(m.sample*rng.NormFloat64())
					if rng.Float64() < m.tail {
						t *= 1 + m.worst*rng.Float64()
					}
					c[side].Times = append(c[side].Times, t)
				}
				c[side].Blocks = append(c[side].Blocks, 5)
			}
		}
		c[0].summarize(0)
		c[1].summarize(0)
		now.Cases, old.Cases = append(now.Cases, c[0]), append(old.Cases, c[1])
	}
	return now, old
}

func TestByTurnsASlowerCaseIsFoundWhileTheSpeedChanges(t *testing.T) {
	const cases = 100
	slower := map[string]float64{"case/7": 0.1, "case/50": 0.1}
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 15))
		now, old := byTurns(rng, machines["noisy"], cases, 20, nil)
		if n := now.CompareByTurns(old, 0.05); n != cases || !now.Baseline.ByTurns {
			t.Fatalf("%d cases were compared: %+v", n, now.Baseline)
		}
		if names := differing(now); len(names) > 5 {
			t.Errorf("equal cases differ: %v", names)
		}
		now, old = byTurns(rng, machines["usual"], cases, 20, slower)
		now.CompareByTurns(old, 0.05)
		found, wrong := 0, 0
		for _, c := range now.Cases {
			switch ch := c.Change; {
			case ch.Low > ch.Ratio || ch.High < ch.Ratio || ch.Low <= 0:
				t.Errorf("%s: %+v", c.Name, ch)
			case slower[c.Name] == 0 && ch.Slower:
				wrong++
			case slower[c.Name] > 0 && ch.Slower && ch.Low < 1/1.1 && 1/1.1 < ch.High:
				found++
			}
		}
		if wrong > 1 {
			t.Errorf("%d cases are no slower, and are called so", wrong)
		}
		if found != len(slower) {
			t.Errorf("%d of %d slower cases were found: %+v, %+v", found, len(slower), now.Cases[7].Change, now.Cases[50].Change)
		}
	}
}

// These are sums of binomial coefficients: 2/2^7, 2/2^11, 2*(1+20+190+1140)/2^20, and so on.
func TestTheSignTestHasKnownValues(t *testing.T) {
	values := func(negative, zero, positive int) (list []float64) {
		for i, n := range []int{negative, zero, positive} {
			for range n {
				list = append(list, float64(i-1))
			}
		}
		return list
	}
	for _, c := range []struct {
		negative, zero, positive int
		want                     float64
	}{
		{0, 0, 0, 1}, {0, 9, 0, 1}, {1, 0, 1, 1}, {4, 0, 3, 1}, {0, 0, 7, 0.015625}, {0, 3, 11, 0.0009765625}, {8, 0, 0, 0.0078125},
		{17, 0, 3, 0.002577}, {4, 0, 16, 0.011818},
	} {
		if p := signTest(values(c.negative, c.zero, c.positive)); math.Abs(p-c.want) > 1e-6 {
			t.Errorf("%+v: p = %v", c, p)
		}
	}
}

func TestCompareByTurnsTakesAnyReport(t *testing.T) {
	constant := func(time float64, blocks ...int) Report {
		c := Result{Name: "case/0", Status: OK, Series: Series{Median: time, Blocks: blocks}}
		for _, n := range blocks {
			for range n {
				c.Times = append(c.Times, time)
			}
		}
		return Report{Cases: []Result{c}}
	}
	each := slices.Repeat([]int{1}, LeastTurns)
	clock := constant(110, each...)
	clock.Cases[0].ClockError = 20
	negative := constant(100, each...)
	negative.Cases[0].Times[0] = -1
	parts := constant(110, each...)
	parts.Cases[0].Fastest = slices.Repeat([]float64{100}, LeastTurns)
	hugePart := constant(100, each...)
	hugePart.Cases[0].Fastest = slices.Repeat([]float64{math.MaxFloat64}, LeastTurns)
	partsOfBoth := constant(110, each...)
	partsOfBoth.Cases[0].Fastest = slices.Repeat([]float64{100}, LeastTurns)
	slowParts := constant(100, each...)
	slowParts.Cases[0].Fastest = slices.Repeat([]float64{110}, LeastTurns)
	huge := constant(1e17, each...)
	huge.Cases[0].Times[0] = math.MaxFloat64
	for name, c := range map[string]struct {
		now, old            Report
		significant, slower bool
	}{
		"equal":               {constant(100, each...), constant(100, each...), false, false},
		"slower":              {constant(110, each...), constant(100, each...), true, true},
		"faster":              {constant(100, each...), constant(110, each...), true, false},
		"within tolerance":    {constant(104, each...), constant(100, each...), true, false},
		"too little":          {constant(101, each...), constant(100, each...), false, false},
		"beyond the clock":    {clock, constant(100, each...), false, false},
		"an interrupted turn": {constant(110, append(each, 1)...), constant(100, each...), true, true},
		"too few":             {constant(110, each[1:]...), constant(100, each...), false, false},
		"no blocks":           {constant(110), constant(100, each...), false, false},
		"none":                {constant(110), constant(100), false, false},
		"blocks do not fit":   {constant(110, append(each[:LeastTurns-1:LeastTurns-1], 2)...), constant(100, -1, LeastTurns+1), false, false},
		"negative":            {negative, constant(100, each...), false, false},
		"parts of one":        {parts, constant(110, each...), false, false},
		"parts of both":       {slowParts, partsOfBoth, true, true},
		"huge parts before":   {parts, hugePart, true, false},
		"huge before":         {constant(1, each...), huge, true, false},
		"huge":                {huge, constant(1, each...), true, true},
	} {
		now := c.now
		now.CompareByTurns(c.old, 0.05)
		ch := now.Cases[0].Change
		if ch == nil || ch.Significant != c.significant || ch.Slower != c.slower || !(ch.P >= 0 && ch.P <= 1) {
			t.Errorf("%s: %+v", name, ch)
		}
		if _, err := json.Marshal(now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
