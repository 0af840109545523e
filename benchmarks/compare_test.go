package benchmarks

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/inventory"
)

// noise is how the times of a case vary, as parts of the time.
type noise struct {
	process float64 // the standard deviation of what a process has in all its samples
	sample  float64 // the same of each sample
	tail    float64 // the probability of a sample that something disturbs
	worst   float64 // how much longer such a sample takes at most
}

// machines are those that comparisons must hold on.
var machines = map[string]noise{
	"quiet": {process: 0.002, sample: 0.003, tail: 0.01, worst: 0.2},
	"usual": {process: 0.015, sample: 0.02, tail: 0.05, worst: 1},
	"noisy": {process: 0.02, sample: 0.08, tail: 0.15, worst: 4},
}

// simulate makes a report of a program on such a machine. The case called slower is slowed down by a part of its time.
func simulate(rng *rand.Rand, m noise, cases, rounds, samples int, slower string, part float64) (r Report) {
	for i := range cases {
		c := Result{Name: fmt.Sprintf("case/%d", i), Status: OK}
		base := math.Pow(10, 1+6*float64(i)/float64(cases)) // 10 ns to 10 ms
		if c.Name == slower {
			base *= 1 + part
		}
		for range rounds {
			offset := 1 + m.process*rng.NormFloat64()
			for range samples / rounds {
				t := base * offset * math.Exp(m.sample*rng.NormFloat64())
				if rng.Float64() < m.tail {
					t *= 1 + m.worst*rng.Float64()
				}
				c.Times = append(c.Times, round(t))
			}
			c.Blocks = append(c.Blocks, samples/rounds)
		}
		c.summarize(0)
		r.Cases = append(r.Cases, c)
	}
	return r
}

func differing(r Report) (names []string) {
	for _, c := range r.Cases {
		if c.Change.Significant {
			names = append(names, c.Name)
		}
	}
	return names
}

// The two properties that the comparison is held to: of 100 cases of equal programs, at least 95 do not differ; and a case
// that became 10 % slower is found.
func TestEqualProgramsDoNotDifferAndASlowOneIsFound(t *testing.T) {
	const runs, cases, samples, tolerance = 3, 100, 30, 0.05 // DESIGN.md has the figures of 40 runs
	for name, m := range machines {
		for _, rounds := range []int{2, 3} {
			most, total, found, slow := 0, 0, 0, 0
			for seed := range uint64(runs) {
				rng := rand.New(rand.NewPCG(seed, 14))
				old := simulate(rng, m, cases, rounds, samples, "", 0)
				now := simulate(rng, m, cases, rounds, samples, "", 0)
				if n := now.Compare(old, tolerance); n != cases {
					t.Fatalf("%d cases were compared", n)
				}
				different := len(differing(now))
				most, total = max(most, different), total+different

				planted := fmt.Sprintf("case/%d", seed)
				now = simulate(rng, m, cases, rounds, samples, planted, 0.10)
				now.Compare(old, tolerance)
				if now.Cases[seed].Change.Slower {
					found++
				}
				for _, c := range now.Cases {
					if c.Change.Slower && c.Name != planted {
						slow++
					}
				}
			}
			t.Logf("%s, %d rounds: of %d equal cases at most %d differ, %.2f on average; slowdown found in %d of %d runs; %.2f others called slower on average",
				name, rounds, cases, most, float64(total)/runs, found, runs, float64(slow)/runs)
			if most > 5 {
				t.Errorf("%s, %d rounds: %d of %d equal cases differ", name, rounds, most, cases)
			}
			if name != "noisy" && rounds >= 3 && found < runs*95/100 {
				t.Errorf("%s, %d rounds: the slowdown was found in %d of %d runs", name, rounds, found, runs)
			}
		}
	}
}

// The machine was slower by a fifth in the second run: all other code was, too. That is no loss of the case, but what it lost
// beyond the others is.
func TestWhatItsBaselinesLostIsNotTheCases(t *testing.T) {
	run := func(seed uint64, own, others float64) Report {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := simulate(rng, machines["usual"], 12, 3, 30, "", 0)
		for i := range r.Cases {
			c := &r.Cases[i]
			var base []float64
			for j := range c.Times {
				base = append(base, c.Times[j]/2*others)
				c.Times[j] *= own
			}
			c.Baselines = []Series{{Baseline: "memcpy", Times: base}, {Baseline: "gone", NotMeasured: "r"}}
			c.Baselines[0].summarize(0)
			c.summarize(0)
		}
		return r
	}
	old := run(1, 1, 1)
	for _, c := range []struct {
		own, others float64
		slower      int
	}{{1.2, 1.2, 0}, {1.4, 1.15, 12}, {1.2, 1, 12}, {1.2, 0.8, 12}, {0.8, 1, 0}} {
		now := run(2, c.own, c.others)
		now.Compare(old, 0.05)
		n := 0
		for _, r := range now.Cases {
			if r.Change.Slower {
				n++
			}
		}
		if n != c.slower {
			t.Errorf("a case at %v and its baseline at %v of the time: %d of 12 are slower, want %d", c.own, c.others, n, c.slower)
		}
	}
}

func TestBeyond(t *testing.T) {
	for _, c := range []struct {
		shift  float64
		others []float64
		want   float64
	}{
		{0.5, nil, 0.5},
		{0.5, []float64{0.25}, 0.25},
		{0.5, []float64{0.25, 0.5}, 0.25},
		{0.5, []float64{0.25, -1}, 0.5},
		{0.5, []float64{1}, 0},
		{-0.5, []float64{-0.25}, -0.25},
		{-0.5, []float64{-1}, 0},
		{-0.5, []float64{0.25}, -0.5},
		{0, []float64{0.25}, 0},
	} {
		if got := beyond(c.shift, c.others); got != c.want {
			t.Errorf("beyond(%v, %v) = %v, want %v", c.shift, c.others, got, c.want)
		}
	}
}

// A case whose samples lie close together is judged by such cases, not by those that vary more.
func TestTheTypicalSpreadIsThatOfSimilarCases(t *testing.T) {
	var pairs []*compared
	for i := range casesForTypical {
		pairs = append(pairs, &compared{new: &Result{Series: Series{Reference: []float64{1}}}, freedom: 4, within: -6, spread: 0.01 + 0.001*float64(i)},
			&compared{new: new(Result), freedom: 4, within: -2, spread: 0.3})
	}
	for within, want := range map[float64]float64{-6.5: 0.0145, -1: 0.3} {
		p := compared{new: &Result{Series: Series{Reference: []float64{1}}}, freedom: 4, within: within}
		if got, known := p.typicalSpread(pairs, nil, 0); !known || math.Abs(got-want) > 1e-9 {
			t.Errorf("within %v: %v, %v, want %v", within, got, known, want)
		}
	}
	// The program is slower: in all cases, or in every other one.
	for name, slower := range map[string]func(i int) bool{"all": func(int) bool { return true }, "half": func(i int) bool { return i%4 < 2 }} {
		for i, p := range pairs {
			p.blocks = 1
			if p.counts = 0; slower(i) {
				p.counts = 1
			}
		}
		if got, _ := pairs[0].typicalSpread(pairs, nil, 0); math.Abs(got-0.0145) > 1e-9 {
			t.Errorf("where %s are slower: %v", name, got)
		}
	}
	// Each case has changed by another factor: that is chance.
	for i, p := range pairs {
		p.counts = float64(i)
	}
	if got, _ := pairs[0].typicalSpread(pairs, nil, 0); got < 1 {
		t.Errorf("where each has changed by another factor: %v", got)
	}
	for _, p := range pairs {
		p.counts = 0
	}
	// So it is where the baselines have.
	var beside []control
	for i := range casesForTypical {
		beside = append(beside, control{shift: 0.5 + 0.1*float64(1-2*(i%2)), within: -6, blocks: 1})
	}
	if got, _ := pairs[0].typicalSpread(pairs, beside, 0.5); math.Abs(got-0.1/medianOfNormal) > 1e-9 {
		t.Errorf("where the baselines have changed: %v", got)
	}
	if _, known := (&compared{}).typicalSpread(pairs, beside, 0); known {
		t.Error("a case without blocks has a typical spread")
	}
	if _, known := pairs[0].typicalSpread(pairs[:casesForTypical-1], beside, 0); known {
		t.Error("too few cases have a typical spread")
	}
}

// Student's t for two groups of three with means 1 and 2 and variance 0.25 is 2.449, whose probability with four degrees of
// freedom is 0.0705 (any table of the distribution).
func TestTheTTestHasKnownValues(t *testing.T) {
	p := compared{counts: 1, spread: 0.5, freedom: 4, blocks: 2.0 / 3}
	if got := p.tTest(0, false); math.Abs(got-0.0705) > 0.0005 {
		t.Errorf("p = %v", got)
	}
	if wide := p.tTest(2, true); wide < 0.3 {
		t.Errorf("with the spread of others p = %v", wide)
	}
	p = compared{freedom: 4}
	if same, other := p.tTest(0, false), (&compared{counts: 1, freedom: 4}).tTest(0, false); same != 1 || other != 0 {
		t.Errorf("without noise p = %v and %v", same, other)
	}
}

// One process may be unlucky in all its samples: without others, a difference of 4 % says nothing, and one of 10 % does.
func TestWithoutBlocksTheDifferenceMustBeLarger(t *testing.T) {
	report := func(factor float64) Report {
		c := Result{Name: "x", Status: OK}
		for i := range 30 {
			c.Times = append(c.Times, factor*(1000+float64(i)/10))
		}
		c.summarize(0)
		return Report{Cases: []Result{c}}
	}
	for factor, want := range map[float64]bool{1: false, 1.04: false, 1.1: true, 0.9: true} {
		now := report(factor)
		now.Compare(report(1), 0.05)
		c := now.Cases[0].Change
		if c.Significant != want || c.Slower != (want && factor > 1) {
			t.Errorf("at %v of the time: %+v", factor, c)
		}
	}
	now, old := report(1.1), report(1)
	now.Cases[0].ClockError = 200 // the clock cannot tell
	if now.Compare(old, 0.05); now.Cases[0].Change.Significant {
		t.Errorf("beyond the clock: %+v", now.Cases[0].Change)
	}
	now = report(1.1)
	if now.Compare(old, 0.15); !now.Cases[0].Change.Significant || now.Cases[0].Change.Slower {
		t.Errorf("within the tolerance: %+v", now.Cases[0].Change)
	}
}

// Two processes of ten samples are enough to see that a case takes three times as long: the U test gets as many samples as it needs.
func TestALargeLossIsFoundInFewSamples(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 19))
		for _, samples := range []int{6, 8, 20} {
			old, now := simulate(rng, machines["usual"], 20, 2, samples, "", 0), simulate(rng, machines["usual"], 20, 2, samples, "case/3", 2)
			if now.Compare(old, 0.05); !now.Cases[3].Change.Slower {
				t.Errorf("seed %d, %d samples: %+v", seed, samples, now.Cases[3].Change)
			}
		}
	}
}

func TestCompareIsAboveOneForWhatBecameFaster(t *testing.T) {
	report := func(medians map[string]float64, names ...string) (r Report) {
		for _, n := range names {
			status := OK
			if medians[n] == 0 {
				status = Failed
			}
			r.Cases = append(r.Cases, Result{Name: n, Status: status, Series: Series{Median: medians[n]}})
		}
		return r
	}
	now := report(map[string]float64{"faster": 10, "slower": 30, "new": 5, "revived": 5}, "faster", "slower", "new", "revived", "broken")
	old := report(map[string]float64{"slower": 15, "faster": 20, "gone": 1, "broken": 5}, "slower", "faster", "gone", "broken", "revived")
	old.Date = time.Unix(9, 0).UTC()
	if n := now.Compare(old, 0.05); n != 2 {
		t.Errorf("%d cases were compared, want 2", n)
	}
	want := []*Change{{Median: 20, Old: 20, New: 10, Ratio: 2, P: 1}, {Median: 15, Old: 15, New: 30, Ratio: 0.5, P: 1}, nil, nil, nil} // without samples, nothing is significant
	for i, c := range now.Cases {
		if !reflect.DeepEqual(c.Change, want[i]) {
			t.Errorf("%s: %+v, want %+v", c.Name, c.Change, want[i])
		}
	}
	if b := (&Baseline{Date: old.Date, Tolerance: 0.05, New: []string{"new", "revived"}, Gone: []string{"gone", "broken"}, Common: &Common{Cases: 2, Ratio: 1}}); !reflect.DeepEqual(now.Baseline, b) {
		t.Errorf("%+v, want %+v", now.Baseline, b)
	}
}

// The times, the ratio and its interval are of the same samples, also where the speed of the processor or noise makes the medians
// differ from them.
func TestTheFiguresOfAChangeFitTogether(t *testing.T) {
	slower := 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 18))
		old, now := simulate(rng, machines["noisy"], 20, 3, 30, "", 0), simulate(rng, machines["noisy"], 20, 3, 30, "case/7", 0.5)
		now.Compare(old, 0.05)
		for _, c := range now.Cases {
			ch := c.Change
			if math.Abs(ch.Old/ch.New-ch.Ratio) > 0.002 {
				t.Errorf("%s: %v/%v is not %v", c.Name, ch.Old, ch.New, ch.Ratio)
			}
			if !(ch.Low > 0 && ch.Low <= ch.Ratio && ch.Ratio <= ch.High) || ch.Significant && ch.Low < 1 && ch.High > 1 {
				t.Errorf("%s: %+v", c.Name, ch)
			}
		}
		if ch := now.Cases[7].Change; ch.Slower {
			slower++
		}
	}
	if slower < 38 {
		t.Errorf("the slower case was found in %d of 40 runs", slower)
	}
}

// A report from a file may have anything in it.
func TestCompareTakesAnyReport(t *testing.T) {
	good := simulate(rand.New(rand.NewPCG(1, 1)), machines["usual"], 1, 3, 30, "", 0)
	for name, change := range map[string]func(*Result){
		"negative":          func(c *Result) { c.Times[3] = -1; c.Median = -5 },
		"negative times":    func(c *Result) { c.Times[0], c.Times[1], c.Times[2] = -1, -1, -1 },
		"all negative":      func(c *Result) { c.Times = slices.Repeat([]float64{-1}, 30) },
		"zero":              func(c *Result) { c.Times = make([]float64, 30) },
		"huge":              func(c *Result) { c.Times[0], c.Median = math.MaxFloat64, math.MaxFloat64 },
		"tiny":              func(c *Result) { c.Median = math.SmallestNonzeroFloat64 },
		"no times":          func(c *Result) { c.Times = nil },
		"one":               func(c *Result) { c.Times, c.Blocks = c.Times[:1], []int{1} },
		"equal":             func(c *Result) { c.Times = slices.Repeat([]float64{7}, 30) },
		"blocks too long":   func(c *Result) { c.Blocks = []int{10, 10, 11} },
		"blocks too short":  func(c *Result) { c.Blocks = []int{10, 10} },
		"negative blocks":   func(c *Result) { c.Blocks = []int{40, -10} },
		"overflowing block": func(c *Result) { c.Blocks = []int{math.MaxInt, math.MaxInt} },
		"baselines":         func(c *Result) { c.Baselines = []Series{{Baseline: "b", Median: math.MaxFloat64}} },
	} {
		bad := good
		bad.Cases = []Result{good.Cases[0]}
		c := &bad.Cases[0]
		c.Times = slices.Clone(c.Times)
		change(c)
		for _, way := range [][2]Report{{good, bad}, {bad, good}, {bad, bad}} {
			now := way[0]
			now.Cases = slices.Clone(now.Cases)
			now.Compare(way[1], 0.05)
			if _, err := json.Marshal(now); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if ch := now.Cases[0].Change; ch != nil && (!(ch.P >= 0) || ch.P > 1 || (ch.Slower && !ch.Significant)) {
				t.Errorf("%s: %+v", name, ch)
			}
		}
	}
}

func TestComparingAReportWithItselfFindsNothing(t *testing.T) {
	for name, m := range machines {
		r := simulate(rand.New(rand.NewPCG(3, 3)), m, 20, 3, 30, "", 0)
		old := r
		old.Cases = slices.Clone(r.Cases)
		if r.Compare(old, 0); len(differing(r)) > 0 || r.Baseline.Differs != nil {
			t.Errorf("%s: %v, %v", name, differing(r), r.Baseline.Differs)
		}
	}
}

func TestBaselineSaysWhatIsNotTheSame(t *testing.T) {
	device := func(name, driver string) facts.Device {
		return facts.Device{Device: inventory.Device{Properties: core.Properties{ID: core.DeviceID{Type: core.DeviceVulkan}, Name: name, Driver: driver}}}
	}
	gone := facts.Device{Missing: "no driver"}
	gone.ID = core.DeviceID{Type: core.DeviceCUDA}
	old := Report{Host: facts.Machine{Kernel: "6.1", CPU: "A", CPUs: 2, Memory: 100, Versions: map[string]string{"Go": "1.25", "NumPy": "2"}, Devices: []facts.Device{device("card", "driver 1"), gone}}}
	now := Report{Host: facts.Machine{Kernel: "6.2", CPU: "B", CPUs: 4, Memory: 101, Versions: map[string]string{"Go": "1.26"}, Devices: []facts.Device{device("card", "driver 2")}}}
	now.Compare(old, 0.05)
	want := []string{
		"kernel: 6.2, before 6.1", "CPU: B, before A", "number of CPUs: 4, before 2",
		"version of Go: 1.26, before 1.25", "version of NumPy: none, before 2", "vulkan:0: card with driver 2, before card with driver 1",
	}
	if !slices.Equal(now.Baseline.Differs, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(now.Baseline.Differs, "; "), strings.Join(want, "; "))
	}
	if old.Compare(old, 0.05); old.Baseline.Differs != nil {
		t.Errorf("the same machine differs: %v", old.Baseline.Differs)
	}
	none := Report{}
	if none.Compare(now, 0.05); !slices.Contains(none.Baseline.Differs, "vulkan:0: not there, before card with driver 2") {
		t.Errorf("%v", none.Baseline.Differs)
	}
}
