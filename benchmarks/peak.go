package benchmarks

import (
	"fmt"

	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/core"
)

// abovePeak is how far a result may be above the peak of its way, for the error of clocks.
const abovePeak = 1.01

// checkPeak finds the peak of the way of a transfer, and says why a result above it cannot be.
func (r *Result) checkPeak(m *facts.Machine) {
	if r.Status != OK || r.Kind != Bandwidth || r.Bytes == 0 {
		return
	}
	onHost := func(ends Ends) bool {
		for _, id := range ends {
			if d := m.Find(id); id != core.CPU && (d == nil || !d.Software) {
				return false
			}
		}
		return true
	}
	if cache := m.LargestCache(); onHost(r.From) && onHost(r.To) && r.Size <= 2*cache {
		return // caches carry more than the memory behind them
	}
	r.Peak = m.PeakOf(r.From, r.To)
	if r.Peak == nil || r.GBPerSecond <= abovePeak*r.Peak.GBPerSecond {
		return
	}
	cause := "the driver reported that copies were done before they were, or the link is faster than the system says"
	switch {
	case !r.Verified:
		cause = "the bytes were not compared, so perhaps nothing was copied"
	case r.Clock == DeviceClock:
		cause = "the clock of the device does not tell the time of all copies"
	case 10*r.ClockError > r.Median:
		cause = "the samples are too short for the clock"
	}
	r.Impossible = fmt.Sprintf("%.1f GB/s is more than the peak of %.1f GB/s (%s): %s", r.GBPerSecond, r.Peak.GBPerSecond, r.Peak.Source, cause)
}
