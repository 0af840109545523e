package benchmarks

import "time"

// Report is the result of a run. Encoding it as JSON and decoding that gives an equal Report.
type Report struct {
	Date    time.Time     `json:"date"`
	Host    Host          `json:"host"`
	Samples int           `json:"samples"`         // requested for every case
	MaxTime time.Duration `json:"max_time_ns"`     // for the samples of one case
	NumPy   string        `json:"numpy,omitempty"` // its version, if it was measured
	Cases   []Result      `json:"cases"`
}

// Status says how a case ended.
type Status string

// The statuses.
const (
	OK          Status = "ok"
	Unsupported Status = "unsupported" // this build or machine cannot do it
	Skipped     Status = "skipped"     // it could, but there is no room for it now
	Failed      Status = "error"
)

// Result holds the measurements of one case.
type Result struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Status      Status `json:"status"`
	Reason      string `json:"reason,omitempty"` // why the status is not ok
	Bytes       int64  `json:"bytes,omitempty"`  // moved by one operation
	Way         string `json:"way,omitempty"`    // the mechanism of the move, where there was a choice
	Allocs      int64  `json:"allocs_per_op"`    // of Go, rounded down as go test does; those of C are not counted
	Series
	Baselines []Series `json:"baselines,omitempty"`
	Against   string   `json:"against,omitempty"`  // the fastest baseline
	Speed     float64  `json:"speed,omitempty"`    // how many times as fast as that: the median over the rounds
	Extra     float64  `json:"extra_ns,omitempty"` // time beyond that: the median over the rounds
	Verdict   *Verdict `json:"verdict,omitempty"`
	Change    *Change  `json:"change,omitempty"`
}

// Series are the samples of one operation, in nanoseconds of a single execution.
type Series struct {
	Baseline    string    `json:"baseline,omitempty"`     // its name, if it is one
	NotMeasured string    `json:"not_measured,omitempty"` // why a baseline has no samples
	Iterations  int       `json:"iterations,omitempty"`   // in each sample
	Times       []float64 `json:"times_ns,omitempty"`     // by rounds
	Min         float64   `json:"min_ns,omitempty"`
	Median      float64   `json:"median_ns,omitempty"`
	Spread      float64   `json:"spread,omitempty"` // from the first quartile to the third, as a part of the median
	GBPerSecond float64   `json:"gb_per_s,omitempty"`
}

// Change compares a result with the result of the same case in an older report.
type Change struct {
	Median float64 `json:"old_median_ns"`
	Ratio  float64 `json:"old_to_new"` // above 1: it is faster now
}

// Compare sets Change in every case that was measured in both reports. It returns the number of these cases.
func (r *Report) Compare(old Report) int {
	medians := make(map[string]float64, len(old.Cases))
	for _, c := range old.Cases {
		medians[c.Name] = c.Median
	}
	n := 0
	for i := range r.Cases {
		c := &r.Cases[i]
		if before := medians[c.Name]; before > 0 && c.Median > 0 {
			c.Change = &Change{before, round(before / c.Median)}
			n++
		}
	}
	return n
}

// noBaseline says why a result has no baseline.
func (r *Result) noBaseline() string {
	for _, b := range r.Baselines {
		if b.NotMeasured != "" {
			return b.Baseline + ": " + b.NotMeasured
		}
	}
	return "the case has no baseline"
}
