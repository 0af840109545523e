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

// badge marks the name of a case that is simulated or cannot be true.
func badge(c benchmarks.Result) (note string) {
	var marks []string
	if c.Simulated {
		marks = append(marks, "simulated")
	}
	if c.Impossible != "" {
		marks = append(marks, "impossible: "+c.Impossible)
	}
	if c.Mismatch != nil {
		marks = append(marks, "wrong bytes: "+c.Mismatch.Text)
	}
	return strings.Join(marks, "; ")
}

func nameCell(c benchmarks.Result) page.Cell { return page.Cell{Text: c.Name, Note: badge(c)} }

// comparison shows the changes against the baseline, the largest first.
func comparison(r benchmarks.Report) page.Section {
	s := page.Section{ID: "comparison", Title: "Comparison"}
	var changed []benchmarks.Result
	for _, c := range r.Cases {
		if c.Change != nil && c.Change.Ratio > 0 {
			changed = append(changed, c)
		}
	}
	if r.Baseline != nil {
		how := "With " + r.Baseline.File + " of " + r.Baseline.Date.Format("2 January 2006, 15:04")
		if r.Baseline.ByTurns {
			how = "Measured by turns with " + r.Baseline.File
		}
		s.Intro = fmt.Sprintf("%s; a loss of up to %s does not count. ", how, percent(r.Baseline.Tolerance))
		if c := r.Baseline.Common; c != nil {
			s.Intro += "Old/new: " + c.String() + ". "
		}
	}
	interval := "99 % confidence interval"
	if r.Baseline != nil && r.Baseline.ByTurns {
		interval = "99.9 % confidence interval"
	}
	s.Intro += "The largest change is the first. The point is the change of the speed and the bar its " + interval + "; to the right of the middle is faster now, the ends are a factor of 2."
	if len(changed) == 0 {
		return s
	}
	size := func(c benchmarks.Result) float64 { return math.Abs(math.Log(c.Change.Ratio)) }
	slices.SortStableFunc(changed, func(a, b benchmarks.Result) int {
		if a.Change.Significant != b.Change.Significant {
			if a.Change.Significant {
				return -1
			}
			return 1
		}
		return cmp.Compare(size(b), size(a))
	})
	t := page.Table{ID: "comparison-table", Caption: "Changes against the baseline", Filter: len(changed) > 12, Columns: []page.Column{
		{Name: "Case"}, {Name: "Before", Numeric: true, Title: "the samples that are compared"}, {Name: "Now", Numeric: true, Title: "the samples that are compared"}, {Name: "Old/new", Numeric: true, Title: "above 1: faster now"},
		{Name: "Change"}, {Name: "p", Numeric: true, Title: "the probability of such a difference if nothing has changed"}, {Name: "Verdict"}}}
	for _, c := range changed {
		d := c.Change
		span := &page.Span{At: math.Log2(d.Ratio), Low: math.Log2(d.Ratio), High: math.Log2(d.Ratio), Label: fmt.Sprintf("%s: %.3f times as fast", c.Name, d.Ratio)}
		if d.Low > 0 && d.High > 0 {
			span.Low, span.High = math.Log2(d.Low), math.Log2(d.High)
			span.Label += fmt.Sprintf(", %.3f to %.3f", d.Low, d.High)
		}
		verdict, row := page.Cell{Text: "no difference"}, ""
		switch {
		case d.Slower:
			verdict, row = page.Cell{Text: "slower", Mark: "bad"}, "bad"
		case d.Significant && d.Ratio > 1:
			verdict = page.Cell{Text: "faster", Mark: "good"}
		case d.Significant:
			verdict = page.Cell{Text: "slower, within the tolerance", Mark: "warn"}
		case d.ByMachine:
			verdict = page.Cell{Text: "the machine's: other code, too"}
		}
		t.Rows = append(t.Rows, page.Row{Class: row, Cells: []page.Cell{nameCell(c), page.N(duration(d.Old), d.Old), page.N(duration(d.New), d.New),
			page.N(fmt.Sprintf("%.3f", d.Ratio), d.Ratio), {Span: span, Sort: d.Ratio}, page.N(fmt.Sprintf("%.3g", d.P), d.P), verdict}})
	}
	s.Parts = append(s.Parts, t)
	return s
}

// targets shows what the project wants of itself.
func targets(r benchmarks.Report) page.Section {
	s := page.Section{ID: "targets", Title: "Targets", Intro: "The limits that the project sets itself, and whether they are met on this machine."}
	t := page.Table{ID: "targets-table", Caption: "Targets and verdicts", Columns: []page.Column{{Name: "Case"}, {Name: "Target"}, {Name: "Value", Numeric: true}, {Name: "Verdict"}}}
	for _, c := range r.Cases {
		v := c.Verdict
		if v == nil || c.Status == benchmarks.Unsupported || c.Status == benchmarks.Skipped {
			continue
		}
		mark := "bad"
		switch {
		case v.Met:
			mark = "good"
		case strings.HasPrefix(v.Text, "not measured"):
			mark = ""
		}
		t.Rows = append(t.Rows, page.Row{Cells: []page.Cell{nameCell(c), page.C(v.Target), page.C(orDash(v.Value)), {Text: v.Text, Mark: mark}}})
	}
	if len(t.Rows) > 0 {
		s.Parts = append(s.Parts, t)
	}
	return s
}

// refused shows each better way that a path did not take. Cases of a path that were refused the same are one line.
func refused(r benchmarks.Report) page.Section {
	s := page.Section{ID: "refused", Title: "Refused", Intro: "The better ways that a path did not take, and why. What is first in the list would be the best."}
	t := page.Table{ID: "refused-table", Caption: "Refused ways", Filter: true, Columns: []page.Column{{Name: "Path"}, {Name: "Taken"}, {Name: "Refused"}, {Name: "Way"}, {Name: "Reason"}, {Name: "Cases", Numeric: true}}}
	type key struct{ path, taken, refused, what, reason string }
	rows := map[key]int{}
	var order []key
	for _, c := range r.Cases {
		for _, f := range c.Refused {
			k := key{cmp.Or(figure.Path(c), c.Name), c.Way, f.Mechanism.String(), f.What, f.Reason}
			if c.Simulated {
				k.path += " (simulated)"
			}
			if rows[k] == 0 {
				order = append(order, k)
			}
			rows[k]++
		}
	}
	for _, k := range order {
		t.Rows = append(t.Rows, page.Row{Cells: []page.Cell{page.C(k.path), page.C(orDash(k.taken)), page.C(k.refused), page.C(k.what), page.C(k.reason), page.N(fmt.Sprint(rows[k]), float64(rows[k]))}})
	}
	if len(t.Rows) > 0 {
		s.Parts = append(s.Parts, t)
	}
	return s
}

// unmeasured shows the reasons for which cases were not measured.
func unmeasured(r benchmarks.Report) page.Section {
	s := page.Section{ID: "unmeasured", Title: "Not measured"}
	t := page.Table{ID: "unmeasured-table", Caption: "Reasons, and the cases that they stopped", Columns: []page.Column{{Name: "Reason"}, {Name: "Status"}, {Name: "Cases", Numeric: true}, {Name: "Which"}}}
	type key struct {
		reason string
		status benchmarks.Status
	}
	names := map[key][]string{}
	var order []key
	for _, c := range r.Cases {
		if c.Status == benchmarks.OK {
			continue
		}
		k := key{c.Reason, c.Status}
		if names[k] == nil {
			order = append(order, k)
		}
		names[k] = append(names[k], c.Name)
	}
	for _, k := range order {
		status := page.Cell{Text: string(k.status)}
		if k.status == benchmarks.Failed {
			status.Mark = "bad"
		}
		n := len(names[k])
		which := names[k]
		if n > 6 {
			which = append(slices.Clone(which[:5]), fmt.Sprintf("and %d more, which the table of cases lists", n-5))
		}
		t.Rows = append(t.Rows, page.Row{Cells: []page.Cell{page.C(orDash(k.reason)), status, page.N(fmt.Sprint(n), float64(n)), page.C(strings.Join(which, ", "))}})
	}
	if len(t.Rows) > 0 {
		s.Parts = append(s.Parts, t)
	}
	return s
}

// cases is the table of all cases.
func cases(r benchmarks.Report) page.Section {
	s := page.Section{ID: "cases", Title: "All cases", Intro: "A click on a heading sorts. The interval is that of the median; CV is the coefficient of variation."}
	t := page.Table{ID: "cases-table", Caption: "All cases", Filter: true, Groups: "Family", Columns: []page.Column{{Name: "Case"}, {Name: "Median", Numeric: true}, {Name: "Interval"},
		{Name: "p5", Numeric: true}, {Name: "p95", Numeric: true}, {Name: "CV", Numeric: true, Title: "coefficient of variation"}, {Name: "GB/s", Numeric: true}, {Name: "Of peak", Numeric: true},
		{Name: "Baseline"}, {Name: "Speed", Numeric: true, Title: "times as fast as the baseline"}, {Name: "Way"}, {Name: "Clock"}, {Name: "Status"}}}
	most := 0.0
	for _, c := range r.Cases {
		if plausible(c) {
			most = max(most, c.GBPerSecond)
		}
	}
	for _, c := range r.Cases {
		t.Rows = append(t.Rows, caseRow(c, most))
	}
	if len(t.Rows) > 0 {
		s.Parts = append(s.Parts, t.WithoutEmpty())
	}
	return s
}

func caseRow(c benchmarks.Result, most float64) page.Row {
	row := page.Row{Group: figure.Family(c), Class: class(c)}
	status := page.Cell{Text: string(c.Status)}
	switch c.Status {
	case benchmarks.OK:
		status.Mark = "good"
		if c.Verified {
			status.Note = "verified"
		}
	case benchmarks.Failed:
		status.Mark = "bad"
		status.Note = c.Reason
	}
	if c.Simulated {
		status.Mark, status.Text = "sim", "simulated"
	}
	if c.Impossible != "" {
		status.Mark, status.Text = "bad", "impossible"
	}
	interval := ""
	if c.Low > 0 {
		interval = duration(c.Low) + " – " + duration(c.High)
	}
	speed, cv := page.Cell{}, page.Cell{}
	if c.Against != "" {
		speed = page.N(fmt.Sprintf("%.2f", c.Speed), c.Speed)
	}
	if len(c.Times) > 1 {
		cv = page.N(percent(c.CV), c.CV)
		if c.CV > noisy {
			cv.Mark = "warn"
		}
	}
	gb := page.N(orEmpty(c.GBPerSecond), c.GBPerSecond)
	if most > 0 && c.GBPerSecond > 0 {
		gb.Bar = c.GBPerSecond / most
	}
	peak := page.Cell{}
	if c.Peak != nil && c.Peak.GBPerSecond > 0 && c.GBPerSecond > 0 {
		peak = page.N(percent(c.GBPerSecond/c.Peak.GBPerSecond), c.GBPerSecond/c.Peak.GBPerSecond)
	}
	clock := page.Cell{Text: string(c.Clock), Keep: true}
	if c.ClockError > 0 {
		clock.Note = "± " + duration(c.ClockError)
	}
	row.Cells = []page.Cell{nameCell(c), page.N(duration(c.Median), c.Median), {Text: interval, Keep: true}, page.N(duration(c.P05), c.P05), page.N(duration(c.P95), c.P95),
		cv, gb, peak, page.C(c.Against), speed, page.C(c.Way), clock, status}
	return row
}

func orEmpty(v float64) string {
	if v == 0 {
		return ""
	}
	return digits(v)
}
