package benchmarks

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"

	"github.com/dlx-go/dlx/benchmarks/facts"
)

// What makes a difference significant, see [Report.Compare].
const (
	// alpha is the probability below which a difference is not taken for chance.
	alpha = 0.01
	// leastEffect is a difference that two processes of the same program may have, since their memory lies elsewhere.
	leastEffect = 0.02
	// leastUnblocked is the same where a run had only one process, so that nothing is known of others.
	leastUnblocked = 0.05
	// The typical spread between blocks is that of so many cases, and worth typicalFreedom degrees of freedom to each case.
	casesForTypical = 10
	// medianOfNormal is the median distance from the mean of a normal distribution, in standard deviations.
	medianOfNormal = 0.6745
	// shortestOfNormal is the mean of shortestHalf of casesForTypical values of a normal distribution, in standard deviations.
	shortestOfNormal = 0.353
	// leastWithin is a distance between samples, as a part of their time, below which cases are alike.
	leastWithin = 1e-4
	// Where the reference work took 30 % longer, as a logarithm, other code may take up to twice that longer: it keeps other
	// units of the processor busy, or waits for other caches.
	dependsOnSpeed = 2
	typicalFreedom = 4
	// mostKnown is the logarithm of half of an interval from which on nothing is known: a factor of a thousand.
	mostKnown = 7
)

// Compare sets Change in every case that was measured in both reports, and Baseline, without a file. It returns the number of
// these cases. Tolerance is the part of a median, such as 0.05, up to which a loss does not count.
//
// The samples of one process share its luck: where its memory lies, and how fast the clocks were. A test that takes
// them as independent finds differences between equal programs. So a difference is significant only if all of these say so:
//
//   - the Mann-Whitney U test of the quickest samples ([benchmath.AssumeNothing]);
//   - Student's t test of the medians of the quickest blocks, where the runs have several (see [Series].Blocks). The variance
//     between blocks is that of the case, or the typical one of the cases whose samples vary as much, if that is larger: few
//     blocks tell little about themselves. It is at least what makes the changes of baselines that vary as much ones of chance;
//   - the size of the difference: above 2 %, or 5 % where there are no blocks, and above what the clock can tell.
//
// Samples are compared at the same speed of the processor, as far as there are such (see [Series].Reference); if not, what the
// speed may explain does not count. The baselines of a case are other code that ran at the same time. Where all of them have changed
// in the same direction as the case, the machine has: only what the case lost or won beyond them counts. For a case without
// baselines, a change that most cases have is the machine's as far as the baselines of the others have it, too (see [Common]).
func (r *Report) Compare(old Report, tolerance float64) int {
	if r == nil {
		return 0
	}
	pairs := r.pair(old, tolerance)
	var beside []control
	for _, p := range pairs {
		p.weigh()
		beside = append(beside, p.controls...)
	}
	shared := sharedBy(pairs, beside)
	r.Baseline.Common = shared.common
	for _, p := range pairs {
		p.setCounts(shared)
	}
	if shared.common != nil {
		shared.common.Slower = mostAreSlower(pairs, tolerance)
	}
	for _, p := range pairs {
		typical, known := p.typicalSpread(pairs, beside, shared.baselines)
		p.new.Change = p.change(typical, known, tolerance)
	}
	return len(pairs)
}

// pair sets Baseline, and returns the cases that were measured in both reports. It removes the changes of earlier comparisons.
func (r *Report) pair(old Report, tolerance float64) (pairs []*compared) {
	r.Baseline = &Baseline{Date: old.Date, Tolerance: tolerance, Differs: r.differs(old)}
	before := make(map[string]*Result, len(old.Cases))
	for i := range old.Cases {
		if c := &old.Cases[i]; c.measured() {
			before[c.Name] = c
		}
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.Change = nil; !c.measured() {
			continue
		}
		b, ok := before[c.Name]
		if !ok {
			r.Baseline.New = append(r.Baseline.New, c.Name)
			continue
		}
		pairs = append(pairs, &compared{old: b, new: c})
	}
	now := make(map[string]bool, len(r.Cases))
	for _, c := range r.Cases {
		now[c.Name] = c.measured()
	}
	for _, c := range old.Cases {
		if c.measured() && !now[c.Name] {
			r.Baseline.Gone = append(r.Baseline.Gone, c.Name)
			now[c.Name] = true // a name that the older report has twice counts once
		}
	}
	return pairs
}

// measured reports whether the case has a time that can be compared: one from a thousandth of a nanosecond to some years. A
// report from a file may have others.
func (r *Result) measured() bool { return r.Status == OK && r.Median >= 0.001 && r.Median < 1e18 }

// compared is a case in two reports.
type compared struct {
	old, new *Result
	oldTime  float64 // that is compared, in nanoseconds
	newTime  float64
	shift    float64 // the logarithm of new time to old time
	counts   float64 // the part of shift that the machine does not explain
	p        float64 // of the U test
	spread   float64 // the standard deviation between blocks, of logarithms
	within   float64 // the logarithm of the typical distance of a sample from the median of its block
	freedom  int     // its degrees of freedom, 0 if there are no blocks
	blocks   float64 // 1/(number of old blocks) + 1/(number of new blocks)
	machine  float64 // the logarithm of how much slower the processor was for the later samples
	controls []control
	// difference says that counts is the difference of two measurements, which varies more than each of them.
	difference bool
}

// control is a baseline that was measured both times. Its fields are those of compared.
type control struct{ shift, within, blocks float64 }

// weigh sets what the samples say.
func (p *compared) weigh() {
	e := compareAtOneSpeed(&p.old.Series, &p.new.Series)
	p.oldTime, p.newTime = e.times(&p.old.Series, &p.new.Series)
	p.shift, p.machine = math.Log(p.newTime/p.oldTime), e.machine
	p.controls = controls(p.old, p.new)
	p.p = uTest(e.before, e.now)
	// Without two blocks on one side nothing is known of the difference between processes.
	if a, b := e.beforeBlocks, e.nowBlocks; e.hasBlocks() {
		p.freedom = len(a) + len(b) - 2
		p.spread = math.Sqrt((squares(a) + squares(b)) / float64(p.freedom))
		p.within, p.blocks = e.noise()
	}
}

// setCounts sets the part of the shift that the machine does not explain. Where its baselines and the speed of the processor, or what
// cases share, explain different parts, the larger one does not count: code depends on the machine in different ways.
func (p *compared) setCounts(s shared) {
	p.counts = p.shift
	explain := func(others ...float64) {
		p.counts = math.Copysign(min(math.Abs(p.counts), math.Abs(beyond(p.shift, others))), p.shift)
	}
	var own []float64
	for _, c := range p.controls {
		own = append(own, c.shift)
	}
	explain(own...)
	p.difference = p.counts != p.shift
	if len(own) == 0 || p.difference {
		explain(s.byMachine)
	}
	if p.machine != 0 {
		explain(dependsOnSpeed * p.machine)
	}
}

// mostAreSlower reports whether most cases have lost more than the tolerance, beyond what the machine explains. It finds a loss that is too
// small to be found in each of them.
func mostAreSlower(pairs []*compared, tolerance float64) bool {
	counts := make([]float64, len(pairs))
	for i, p := range pairs {
		counts[i] = p.counts
	}
	return median(counts) > math.Log1p(max(tolerance, leastUnblocked)) && signTest(counts) < alphaByTurns
}

// shared is what cases have in common, as logarithms of new time to old time.
type shared struct {
	common    *Common
	baselines float64 // the median shift of the baselines, 0 without any
	byMachine float64 // the part of the median shift of the cases that the baselines have, too
}

// sharedBy returns what the pairs have in common. Beside are the baselines of all of them.
func sharedBy(pairs []*compared, beside []control) (s shared) {
	var cases, baselines, reference []float64
	for _, p := range pairs {
		cases = append(cases, p.shift)
		if a, b := p.old.Reference, p.new.Reference; len(a) > 0 && len(b) > 0 {
			reference = append(reference, median(logs(b))-median(logs(a)))
		}
	}
	for _, c := range beside {
		baselines = append(baselines, c.shift)
	}
	if len(cases) == 0 {
		return s
	}
	ratio := func(shifts []float64) float64 {
		if len(shifts) == 0 {
			return 0
		}
		return round(math.Exp(-median(shifts)))
	}
	s.common = &Common{Cases: len(cases), Ratio: ratio(cases), Baselines: len(baselines), BaselineRatio: ratio(baselines), ReferenceRatio: ratio(reference)}
	if len(baselines) > 0 {
		s.baselines = median(baselines)
		if all := median(cases); all*s.baselines > 0 {
			s.byMachine = math.Copysign(min(math.Abs(all), math.Abs(s.baselines)), all)
		}
	}
	return s
}

// uTest returns the probability of such a difference between samples of the same distribution, 1 where there are none.
func uTest(a, b []float64) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	sample := func(times []float64) *benchmath.Sample {
		return benchmath.NewSample(slices.Clone(times), &benchmath.DefaultThresholds)
	}
	if p := benchmath.AssumeNothing.Compare(sample(a), sample(b)).P; finite(p) {
		return min(1, max(0, p))
	}
	return 1
}

// blockMedians returns the medians of the blocks of values, which are those of the samples, nil if the blocks do not fit.
func (s *Series) blockMedians(values []float64) []float64 {
	var list []float64
	for _, n := range s.Blocks {
		if n <= 0 || n > len(values) {
			return nil
		}
		list, values = append(list, median(values[:n])), values[n:]
	}
	if len(values) > 0 {
		return nil
	}
	return list
}

// controls returns the baselines of a case that were measured both times.
func controls(old, now *Result) (list []control) {
	for _, b := range now.Baselines {
		for _, before := range old.Baselines {
			if b.Baseline == before.Baseline && b.Median > 0 && before.Median > 0 {
				e := compareAtOneSpeed(&before, &b)
				c := control{shift: e.shift(&before, &b)}
				if e.hasBlocks() {
					c.within, c.blocks = e.noise()
				}
				list = append(list, c)
			}
		}
	}
	return list
}

// hasBlocks reports whether there are enough blocks to tell how much they differ.
func (e evidence) hasBlocks() bool {
	a, b := len(e.beforeBlocks), len(e.nowBlocks)
	return a > 0 && b > 0 && a+b > 2
}

// noise returns the fields of compared and control that have these names. There must be blocks.
func (e evidence) noise() (within, blocks float64) {
	return math.Log(max(e.within, leastWithin)), 1/float64(len(e.beforeBlocks)) + 1/float64(len(e.nowBlocks))
}

// times returns the times of two series that are compared.
func (e evidence) times(before, now *Series) (a, b float64) {
	if len(e.before) == 0 || len(e.now) == 0 { // a report without samples
		return before.Median, now.Median
	}
	return math.Exp(median(e.before)), math.Exp(median(e.now))
}

// shift returns the logarithm of the time of a series to that of an earlier one.
func (e evidence) shift(before, now *Series) float64 {
	a, b := e.times(before, now)
	return math.Log(b / a)
}

// beyond returns the part of shift that is beyond the smallest of the others, 0 if it is not. If one of them has another
// direction, or there are none, that is all of shift.
func beyond(shift float64, others []float64) float64 {
	if len(others) == 0 {
		return shift
	}
	sign, least := math.Copysign(1, shift), math.Inf(1)
	for _, o := range others {
		least = min(least, sign*o)
	}
	return sign * max(0, sign*shift-max(0, least))
}

// typicalSpread returns the median of the spreads between blocks of those cases that are most like p: their samples vary as much
// within a block. It also returns whether there are enough for that. It is at least what makes the typical change of the baselines
// that are most like p one of chance, beyond the change that most of them have: they are not the program's code.
func (p *compared) typicalSpread(pairs []*compared, beside []control, common float64) (spread float64, known bool) {
	var like []*compared
	for _, other := range pairs {
		if other.freedom > 0 {
			like = append(like, other)
		}
	}
	if p.freedom == 0 || len(like) < casesForTypical {
		return 0, false
	}
	spread = median(mostLike(like, p.within, func(c *compared) float64 { return c.within }, func(c *compared) float64 { return c.spread }))
	beside = slices.DeleteFunc(slices.Clone(beside), func(c control) bool { return c.blocks == 0 })
	if len(beside) >= casesForTypical {
		changes := mostLike(beside, p.within, func(c control) float64 { return c.within },
			func(c control) float64 { return math.Abs(c.shift-common) / math.Sqrt(c.blocks) })
		spread = max(spread, median(changes)/medianOfNormal)
	}
	// Other programs on the machine change cases in both directions, each by another factor. Reports of older programs, without times of
	// the reference, are compared without it.
	if len(p.new.Reference) > 0 {
		changes := mostLike(like, p.within, func(c *compared) float64 { return c.within }, func(c *compared) float64 { return c.counts / math.Sqrt(c.blocks) })
		spread = max(spread, shortestHalf(changes)/shortestOfNormal)
	}
	return spread, true
}

// shortestHalf returns half of the length of the shortest interval that has half of the values. Unlike the distance from a mean, it does
// not grow where some of the values, or all, are shifted by as much.
func shortestHalf(values []float64) float64 {
	sorted, n := slices.Sorted(slices.Values(values)), len(values)/2
	least := math.Inf(1)
	for i := range len(sorted) - n + 1 {
		least = min(least, sorted[i+n-1]-sorted[i])
	}
	return least / 2
}

// mostLike returns the values of the casesForTypical elements of list whose noise within a block is nearest.
func mostLike[T any](list []T, nearest float64, within, value func(T) float64) (values []float64) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int {
		return cmp.Compare(math.Abs(within(a)-nearest), math.Abs(within(b)-nearest))
	})
	for _, x := range list[:casesForTypical] {
		values = append(values, value(x))
	}
	return values
}

// change judges a pair.
func (p *compared) change(typical float64, known bool, tolerance float64) *Change {
	c := &Change{Median: p.old.Median, Old: round(p.oldTime), New: round(p.newTime), Ratio: round(p.oldTime / p.newTime), P: p.p}
	c.ByMachine = p.counts != p.shift && math.Abs(p.shift) > math.Log1p(leastUnblocked) && math.Abs(p.counts) < math.Abs(p.shift)/2
	least := leastUnblocked
	if p.freedom > 0 {
		least = leastEffect
		c.P = max(c.P, p.tTest(typical, known))
		deviation, freedom := p.deviation(typical, known)
		if half := stats.InvCDF(stats.TDist{V: freedom})(1-alpha/2) * deviation; half < mostKnown { // not where it is NaN, either
			c.Low, c.High = round(math.Exp(-p.shift-half)), round(math.Exp(-p.shift+half))
		}
	}
	clock := p.old.ClockError + p.new.ClockError
	c.Significant = c.P < alpha && math.Abs(p.counts) > math.Log1p(least) && math.Abs(p.new.Median-p.old.Median) > clock
	c.Slower = c.Significant && p.counts > math.Log1p(tolerance)
	return c
}

// tTest returns the probability that blocks of equal programs differ so much.
func (p *compared) tTest(typical float64, known bool) float64 {
	deviation, freedom := p.deviation(typical, known)
	if deviation == 0 {
		if p.counts == 0 {
			return 1
		}
		return 0 // blocks without any noise, as on a simulated clock
	}
	return min(1, max(0, 2*(1-stats.TDist{V: freedom}.CDF(math.Abs(p.counts)/deviation))))
}

// deviation returns the standard deviation of counts, and the degrees of freedom of its estimate.
func (p *compared) deviation(typical float64, known bool) (deviation, freedom float64) {
	spread, freedom := p.spread, float64(p.freedom)
	if known {
		spread, freedom = max(spread, typical), freedom+typicalFreedom
	}
	if p.difference {
		spread *= math.Sqrt2
	}
	return spread * math.Sqrt(p.blocks), freedom
}

// differs says what about the machine is not as in the older report. What one of them does not know does not count.
func (r *Report) differs(old Report) (list []string) {
	note := func(what, before, now string) {
		if before != now && before != "" && now != "" {
			list = append(list, fmt.Sprintf("%s: %s, before %s", what, now, before))
		}
	}
	a, b := &old.Host, &r.Host
	note("platform", a.Platform, b.Platform)
	note("system", a.System, b.System)
	note("kernel", a.Kernel, b.Kernel)
	note("hypervisor", a.Virtual, b.Virtual)
	note("container", a.Container, b.Container)
	note("CPU", a.CPU, b.CPU)
	note("number of CPUs", strconv.Itoa(a.CPUs), strconv.Itoa(b.CPUs))
	note("allowed CPUs", a.Affinity, b.Affinity)
	note("governor", a.Governor, b.Governor)
	if a.Memory > 0 && b.Memory > 0 && math.Abs(float64(a.Memory-b.Memory)) > 0.02*float64(a.Memory) {
		note("bytes of memory", strconv.FormatInt(a.Memory, 10), strconv.FormatInt(b.Memory, 10))
	}
	names := maps.Clone(a.Versions)
	if names == nil {
		names = make(map[string]string)
	}
	maps.Copy(names, b.Versions)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		note("version of "+name, orNone(a.Versions[name]), orNone(b.Versions[name]))
	}
	for i := range b.Devices {
		d := &b.Devices[i]
		if before := a.Find(d.ID); before != nil {
			note(d.ID.String(), deviceText(before), deviceText(d))
		} else if d.Missing == "" {
			list = append(list, d.ID.String()+": "+deviceText(d)+", before not there")
		}
	}
	for i := range a.Devices {
		if d := &a.Devices[i]; d.Missing == "" && b.Find(d.ID) == nil {
			list = append(list, d.ID.String()+": not there, before "+deviceText(d))
		}
	}
	return list
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func deviceText(d *facts.Device) string {
	if d.Missing != "" {
		return "missing"
	}
	text := d.Name
	if d.Driver != "" {
		text += " with " + d.Driver
	}
	if d.Link != "" && d.Bus != nil {
		text += ", " + d.Bus.Source
	}
	return orNone(text)
}
