package benchmarks

import (
	"fmt"
	"time"

	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// Report is the result of a run. Encoding it as JSON and decoding that gives an equal Report.
type Report struct {
	Date        time.Time     `json:"date"`
	Host        facts.Machine `json:"host"`
	Samples     int           `json:"samples"`               // requested for every case
	MaxTime     time.Duration `json:"max_time_ns"`           // for the samples of one case
	NumPy       string        `json:"numpy,omitempty"`       // its version, if it was measured
	Interrupted bool          `json:"interrupted,omitempty"` // the run ended before all cases were measured
	Shortened   string        `json:"shortened,omitempty"`   // that there was no time for all rounds: "the budget of 3s ended the run after 1 of 3 rounds"
	Baseline    *Baseline     `json:"baseline,omitempty"`    // the report that this one is compared with
	Cases       []Result      `json:"cases"`
}

// Baseline is an older report, or that of a program that was measured by turns with this one.
type Baseline struct {
	File      string    `json:"file"`
	Date      time.Time `json:"date"`
	ByTurns   bool      `json:"by_turns,omitempty"` // File is a program that was measured by turns with this one, see [RunByTurns]
	Tolerance float64   `json:"tolerance"`          // the part of a median, such as 0.05, up to which a loss does not count
	Differs   []string  `json:"differs,omitempty"`  // what about the machine or the program is not the same
	New       []string  `json:"new,omitempty"`      // cases that were measured in the newer report only
	Gone      []string  `json:"gone,omitempty"`     // cases that were measured in the older report only
	Common    *Common   `json:"common,omitempty"`   // what the changes have in common; nil if nothing was compared
}

// Common is what the cases of two reports have in common, and what the machine has changed by itself. Ratios are old time to new
// time: above 1, it is faster now. A change that most cases have is the machine's only as far as other code has it, too.
// [Report.CompareByTurns] sets only Cases and Ratio.
type Common struct {
	Cases          int     `json:"cases"`                          // that were compared
	Ratio          float64 `json:"old_to_new"`                     // the median of the cases
	Baselines      int     `json:"baselines,omitempty"`            // that were measured both times, such as memcpy
	BaselineRatio  float64 `json:"baselines_old_to_new,omitempty"` // their median
	ReferenceRatio float64 `json:"reference_old_to_new,omitempty"` // that of the reference work, see [Series].Reference; 0: it was not measured
	// Slower says that most cases are slower by more than the tolerance, beyond what the machine explains.
	Slower bool `json:"slower,omitempty"`
}

// String returns the ratios in words: "median of 25 cases 0.33x, of their baselines 1.00x, of the reference work 1.00x".
func (c *Common) String() string {
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("median of %d cases %.2fx", c.Cases, c.Ratio)
	if c.Cases == 1 {
		text = fmt.Sprintf("1 case %.2fx", c.Ratio)
	}
	if c.Baselines > 0 {
		text += fmt.Sprintf(", of their baselines %.2fx", c.BaselineRatio)
	}
	if c.ReferenceRatio > 0 {
		text += fmt.Sprintf(", of the reference work %.2fx", c.ReferenceRatio)
	}
	return text
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

// Kind is what a case measures. It says how the result is shown.
type Kind string

// The kinds.
const (
	Bandwidth Kind = "bandwidth" // bytes a second: more is better
	Latency   Kind = "latency"   // the time until something is done: less is better
	Overhead  Kind = "overhead"  // the time of a call that moves no bytes: less is better
)

// Clock is what measured a time.
type Clock string

// The clocks.
const (
	HostClock   Clock = "host"   // from a call until the device says that all is done
	DeviceClock Clock = "device" // between two marks that the device noted
)

// Mismatch is the first place where bytes were not those that should have arrived.
type Mismatch struct {
	Offset int64  `json:"offset"` // of the first wrong byte
	Wrong  int64  `json:"wrong"`  // number of wrong bytes
	Of     int64  `json:"of"`     // number of bytes that were compared
	Want   string `json:"want"`   // eight bytes from Offset on, in hexadecimal
	Got    string `json:"got"`
	Bits   string `json:"bits"` // those that differ, of the eight bytes: "bit 3 of byte 0"
	Text   string `json:"text"` // the whole in words, with a likely cause
}

// Ends are devices at one end of a transfer.
type Ends []core.DeviceID

// Result holds the measurements of one case.
type Result struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Family      string `json:"family,omitempty"` // the name without devices and sizes: "host_to_device_memcpy_ce"
	Kind        Kind   `json:"kind,omitempty"`
	From        Ends   `json:"from,omitempty"`    // the devices whose memory is read
	To          Ends   `json:"to,omitempty"`      // the devices whose memory is written
	Memory      string `json:"memory,omitempty"`  // the host's memory, where it matters: "pinned", "pageable", "managed", "mapped"
	Size        int64  `json:"size,omitempty"`    // of a buffer, in bytes
	Streams     int    `json:"streams,omitempty"` // that work at the same time, where there are several
	Status      Status `json:"status"`
	Reason      string `json:"reason,omitempty"` // why the status is not ok
	Simulated   bool   `json:"simulated,omitempty"`
	Bytes       int64  `json:"bytes,omitempty"` // moved by one operation
	Way         string `json:"way,omitempty"`   // the mechanism of the move, where there was a choice
	// Refused are the better ways, with the reason why each was not taken.
	Refused []exchange.Refusal `json:"refused,omitempty"`
	// ClockError is how far one sample may be wrong because of the clock, in nanoseconds of one operation.
	Clock      Clock     `json:"clock,omitempty"`
	ClockError float64   `json:"clock_error_ns,omitempty"`
	Verified   bool      `json:"verified,omitempty"` // the bytes that arrived were compared with those that were sent
	Mismatch   *Mismatch `json:"mismatch,omitempty"`
	// Peak is the most that the bus or the memory on the way can carry. If the result is above it, Impossible says so, with
	// the likely cause.
	Peak       *facts.Peak `json:"peak,omitempty"`
	Impossible string      `json:"impossible,omitempty"`
	Notes      []string    `json:"notes,omitempty"` // what else a reader should know
	Allocs     int64       `json:"allocs_per_op"`   // of Go, rounded down as go test does; those of C are not counted
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
	Blocks      []int     `json:"blocks,omitempty"`       // numbers of consecutive samples, each from a process of its own
	Fastest     []float64 `json:"fastest_ns,omitempty"`   // of each sample: the time in its fastest part
	Reference   []float64 `json:"reference_ns,omitempty"` // beside that part: the time of the same work, which tells how fast the processor was
	Min         float64   `json:"min_ns,omitempty"`
	P05         float64   `json:"p05_ns,omitempty"` // percentiles
	P25         float64   `json:"p25_ns,omitempty"`
	Median      float64   `json:"median_ns,omitempty"`
	P75         float64   `json:"p75_ns,omitempty"`
	P95         float64   `json:"p95_ns,omitempty"`
	P99         float64   `json:"p99_ns,omitempty"`
	Max         float64   `json:"max_ns,omitempty"`
	Low         float64   `json:"low_ns,omitempty"` // the confidence interval of the median
	High        float64   `json:"high_ns,omitempty"`
	Confidence  float64   `json:"confidence,omitempty"` // of that interval, such as 0.95
	CV          float64   `json:"cv,omitempty"`         // the coefficient of variation
	Spread      float64   `json:"spread,omitempty"`     // from the first quartile to the third, as a part of the median
	GBPerSecond float64   `json:"gb_per_s,omitempty"`
}

// Change compares a result with the result of the same case in the report of the [Baseline].
type Change struct {
	Median float64 `json:"old_median_ns"` // of all samples
	// Old and New are the times that are compared: the medians of the quickest samples at the same speed of the processor, see
	// [Report.Compare]. [Report.CompareByTurns] compares the times of each round, and leaves them 0.
	Old   float64 `json:"old_ns,omitempty"`
	New   float64 `json:"new_ns,omitempty"`
	Ratio float64 `json:"old_to_new"` // Old/New, or the median of Rounds. Above 1: it is faster now
	P     float64 `json:"p"`          // the probability of such a difference if nothing has changed: the highest of the tests
	// Rounds are the ratios of each round. Only [Report.CompareByTurns] sets them.
	Rounds []float64 `json:"rounds,omitempty"`
	// Low and High are an interval that has the ratio with a probability of 99 %, or 99.9 % by turns; 0 if it is not known.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	// Significant says that the difference is not chance. Slower says that it is also a loss beyond the tolerance.
	Significant bool `json:"significant"`
	Slower      bool `json:"slower,omitempty"`
	// ByMachine says that most of the difference is the machine's: other code has changed in the same direction.
	ByMachine bool `json:"by_machine,omitempty"`
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
