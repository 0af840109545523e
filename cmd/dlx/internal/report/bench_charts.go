package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/figure"
	"github.com/dlx-go/dlx/cmd/dlx/internal/page"
)

// bandwidth shows bandwidth over size for what was measured with several sizes, and bars for the rest.
func bandwidth(r benchmarks.Report) page.Section {
	s := page.Section{ID: "bandwidth", Title: "Bandwidth", Intro: "The shaded band is the confidence interval of the median. A dotted line is the most that the bus or the memory can carry. " +
		"Each line has a mark of its own; the names below a chart show and hide it."}
	charts, rest := figure.Bandwidth(r.Cases, page.Colors)
	var grid page.Grid
	for _, c := range charts {
		grid = append(grid, sizeChart(c))
	}
	if len(grid) > 0 {
		s.Parts = append(s.Parts, grid)
	}
	if len(rest) > 0 {
		s.Parts = append(s.Parts, oneSize(rest))
	}
	return s
}

// oneSize shows lines of one size as bars, those of a family together, and those that are alone in their family together, too.
func oneSize(rest []figure.Line) (grid page.Grid) {
	var order []string
	families := map[string]*page.Bars{}
	for _, l := range rest {
		for _, c := range l.Cases {
			family, bar := figure.Family(c), page.Bar{Name: c.Name, Value: c.GBPerSecond, Text: rate(c.GBPerSecond), Tip: caseTip(c), Class: class(c)}
			if figure.Path(c) != "" && c.Family != "" {
				bar.Name = l.Name
				if n := figure.Size(c); n > 0 {
					bar.Name += ", " + size(float64(n))
				}
			} else {
				family, _, _ = strings.Cut(c.Name, "/")
			}
			if c.Peak != nil {
				bar.Limit = c.Peak.GBPerSecond
			}
			if families[family] == nil {
				order = append(order, family)
				families[family] = &page.Bars{Title: family}
			}
			families[family].List = append(families[family].List, bar)
		}
	}
	slices.Sort(order)
	alone := page.Bars{Title: "others"}
	for _, family := range order {
		bars := families[family]
		slices.SortStableFunc(bars.List, func(a, b page.Bar) int { return cmp.Compare(b.Value, a.Value) })
		if len(bars.List) > 1 || len(order) == 1 {
			grid = append(grid, *bars)
			continue
		}
		one := bars.List[0]
		if !strings.HasPrefix(one.Name, family) {
			one.Name = family + ", " + one.Name
		}
		alone.List = append(alone.List, one)
	}
	if len(alone.List) > 0 {
		grid = append(grid, alone)
	}
	return grid
}

// class returns the mark of what is simulated or cannot be true.
func class(c benchmarks.Result) string {
	switch {
	case c.Impossible != "" || c.Mismatch != nil || c.Status == benchmarks.Failed:
		return "bad"
	case c.Simulated:
		return "sim"
	}
	return ""
}

func sizeChart(c figure.Chart) page.Lines {
	l := page.Lines{Title: c.Title,
		X: page.Axis{Name: "size", Log: true, Binary: true, Format: size},
		Y: page.Axis{Name: "GB/s", Log: true, Format: digits}}
	for _, line := range c.Lines {
		one := page.Line{Name: line.Name}
		for _, p := range line.Cases {
			low, high := interval(p)
			one.Points = append(one.Points, page.Point{X: float64(figure.Size(p)), Y: p.GBPerSecond, Low: low, High: high, Tip: caseTip(p)})
			if p.Simulated {
				one.Class = "sim"
			}
			if p.Peak != nil {
				one.Limit = p.Peak.GBPerSecond
			}
		}
		if one.Class == "sim" && !strings.Contains(one.Name, "simulated") {
			one.Name += " (simulated)"
		}
		l.Series = append(l.Series, one)
	}
	return l
}

// interval is the confidence interval of a bandwidth.
func interval(c benchmarks.Result) (low, high float64) {
	if c.Low <= 0 || c.High <= 0 || c.Bytes <= 0 {
		return 0, 0
	}
	return float64(c.Bytes) / c.High, float64(c.Bytes) / c.Low
}

// caseTip describes a case in a tooltip.
func caseTip(c benchmarks.Result) string {
	ci := ""
	if c.Low > 0 {
		ci = fmt.Sprintf("%.0f%% interval %s to %s", 100*c.Confidence, duration(c.Low), duration(c.High))
		if low, high := interval(c); low > 0 {
			ci = fmt.Sprintf("%.0f%% interval %s to %s GB/s", 100*c.Confidence, digits(low), digits(high))
		}
	}
	peak := ""
	if c.Peak != nil && c.GBPerSecond > 0 {
		peak = percent(c.GBPerSecond/c.Peak.GBPerSecond) + " of " + rate(c.Peak.GBPerSecond) + " (" + c.Peak.Source + ")"
	}
	simulated := ""
	if c.Simulated {
		simulated = "simulated"
	}
	return tip(c.Name, rate(c.GBPerSecond), "median "+orDash(duration(c.Median)), ci, peak, with("by", c.Way), simulated, with("impossible:", c.Impossible))
}

// latency shows the distribution of the samples of what moves no bytes, or whose time counts.
func latency(r benchmarks.Report) page.Section {
	s := page.Section{ID: "latency", Title: "Latency", Intro: "The part of the samples that took at most so long. A steep line is steady; a long tail at the top is what a program sometimes waits for."}
	var grid page.Grid
	for _, c := range figure.Latency(r.Cases, page.Colors) {
		l := page.Lines{Title: c.Title,
			X: page.Axis{Name: "time of one operation", Log: true, Format: duration},
			Y: page.Axis{Name: "part of the samples", Percent: true, Format: func(v float64) string { return percentRound(v) }}}
		for _, line := range c.Lines {
			for _, one := range line.Cases {
				l.Series = append(l.Series, distribution(line.Name, one))
			}
		}
		grid = append(grid, l)
	}
	if len(grid) > 0 {
		s.Parts = append(s.Parts, grid)
	}
	return s
}

func percentRound(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }

// corners is about how many points of a distribution are drawn.
const corners = 60

// distribution is the empirical distribution of the samples of a case, with a tooltip for some percentiles.
func distribution(name string, c benchmarks.Result) page.Line {
	times := slices.Sorted(slices.Values(c.Times))
	l := page.Line{Name: name, Steps: true}
	if c.Simulated {
		l.Class = "sim"
		l.Name += " (simulated)"
	}
	n := len(times)
	marks := map[int]string{}
	for _, p := range []float64{0, 0.25, 0.5, 0.75, 0.95, 0.99, 1} {
		at := min(max(int(math.Ceil(p*float64(n)))-1, 0), n-1)
		label := percentRound(p) + " of the samples took at most"
		switch p {
		case 0:
			label = "the fastest sample took"
		case 0.5:
			label = "median"
		case 1:
			label = "the slowest sample took"
		}
		marks[at] = tip(marks[at], label+" "+duration(times[at]))
	}
	every := max(1, n/corners)
	for i, t := range times {
		if mark := marks[i]; mark != "" || i%every == 0 {
			p := page.Point{X: t, Y: float64(i+1) / float64(n)}
			if mark != "" {
				p.Tip = tip(c.Name, mark, fmt.Sprintf("%s, coefficient of variation %s", many(n, "sample"), percent(c.CV)))
			}
			l.Points = append(l.Points, p)
		}
	}
	return l
}
