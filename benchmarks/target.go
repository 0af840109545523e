package benchmarks

import (
	"fmt"
	"math"
)

// Measure is what a target limits.
type Measure int

// The measures.
const (
	Unlimited Measure = iota
	Time              // nanoseconds of one operation, at most
	Extra             // nanoseconds more than the baseline, at most
	Speed             // times as fast as the baseline, at least
)

// Target is a limit for the result of a case.
type Target struct {
	Measure  Measure
	Limit    float64
	Baseline string // for Extra and Speed, in words: "empty call"
	NoAllocs bool   // in addition, nothing may be allocated
}

// String returns text such as "<= empty call + 30 ns", and "" for the zero Target.
func (t Target) String() string {
	var s string
	switch t.Measure {
	case Time:
		s = fmt.Sprintf("<= %g ns", t.Limit)
	case Extra:
		s = fmt.Sprintf("<= %s + %g ns", t.Baseline, t.Limit)
	case Speed:
		s = fmt.Sprintf(">= %.2f x %s", t.Limit, t.Baseline)
	default:
		return ""
	}
	if t.NoAllocs {
		s += ", 0 allocs"
	}
	return s
}

// Verdict compares a result with its target.
type Verdict struct {
	Target string  `json:"target"`
	Value  string  `json:"value,omitempty"` // what was limited: "7.1 ns", "+28.3 ns", "1.31 x"
	Met    bool    `json:"met"`
	MissBy float64 `json:"miss_by,omitempty"` // in the unit of the value
	Text   string  `json:"text"`              // "met", "missed by 3.1 ns", "not measured: ..."
}

// judge holds a result to the target; nil if there is none.
func (t Target) judge(r Result) *Verdict {
	if t.Measure == Unlimited {
		return nil
	}
	v := &Verdict{Target: t.String()}
	switch {
	case r.Status != OK:
		v.Text = "not measured: " + r.Reason
		return v
	case t.Measure != Time && r.Against == "":
		v.Text = "not measured: " + r.noBaseline()
		return v
	}
	var unit string
	switch t.Measure {
	case Time:
		v.Value, unit = fmt.Sprintf("%.1f ns", r.Median), " ns"
		v.MissBy = r.Median - t.Limit
	case Extra:
		v.Value, unit = fmt.Sprintf("%+.1f ns", r.Extra), " ns"
		v.MissBy = r.Extra - t.Limit
	case Speed:
		v.Value = fmt.Sprintf("%.2f x", r.Speed)
		v.MissBy = t.Limit - r.Speed
	}
	v.MissBy = max(0, v.MissBy)
	switch {
	case v.MissBy > 0:
		v.Text = fmt.Sprintf("missed by %s%s", significant(v.MissBy), unit)
	case t.NoAllocs && r.Allocs > 0:
		v.Text = fmt.Sprintf("missed by %d allocs", r.Allocs)
	default:
		v.Met, v.Text = true, "met"
	}
	return v
}

// significant prints a positive number so that it is never 0.
func significant(x float64) string {
	if x < 0.1 {
		return fmt.Sprintf("%.1g", x)
	}
	return fmt.Sprintf("%.*f", int(max(0, 2-math.Ceil(math.Log10(x)))), x)
}
