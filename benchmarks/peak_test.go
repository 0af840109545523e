package benchmarks

import (
	"strings"
	"testing"

	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/core"
)

func TestAResultAboveThePeakIsImpossible(t *testing.T) {
	card := core.DeviceID{Type: core.DeviceCUDA}
	d := facts.Device{Bus: &facts.Peak{GBPerSecond: 32, Source: "a link"}, Memory: &facts.Peak{GBPerSecond: 1000, Source: "a memory"}}
	d.ID = card
	host := facts.Device{}
	host.ID = core.CPU
	m := &facts.Machine{Devices: []facts.Device{host, d}, Caches: []facts.Cache{{Level: 3, Bytes: 1 << 20}}, MemoryPeak: &facts.Peak{GBPerSecond: 100, Source: "modules"}}
	m.Devices[0].Memory = m.MemoryPeak
	up := Result{Status: OK, Kind: Bandwidth, From: Ends{core.CPU}, To: Ends{card}, Bytes: 64 << 20, Size: 64 << 20, Verified: true, Clock: HostClock, Series: Series{Median: 1e6}}
	for _, c := range []struct {
		name   string
		rate   float64
		change func(*Result)
		peak   float64
		want   string // "" is possible
	}{
		{"below", 31, func(*Result) {}, 32, ""},
		{"above", 64, func(*Result) {}, 32, "the driver reported"},
		{"not verified", 64, func(r *Result) { r.Verified = false }, 32, "were not compared"},
		{"by the device's clock", 64, func(r *Result) { r.Clock = DeviceClock }, 32, "the clock of the device"},
		{"too short", 64, func(r *Result) { r.ClockError = 5e5 }, 32, "too short"},
		{"within the device", 501, func(r *Result) { r.From = r.To }, 500, ""},
		{"within the device, above", 600, func(r *Result) { r.From = r.To }, 500, "impossible"},
		{"within the host", 60, func(r *Result) { r.To = r.From }, 50, "half of the memory"},
		{"in a cache", 60, func(r *Result) { r.To = r.From; r.Size = 1 << 20 }, 0, ""},
		{"failed", 60, func(r *Result) { r.Status = Failed }, 0, ""},
		{"no bytes", 60, func(r *Result) { r.Bytes = 0 }, 0, ""},
		{"a latency", 60, func(r *Result) { r.Kind = Latency }, 0, ""},
		{"several devices", 60, func(r *Result) { r.From = Ends{card, core.CPU} }, 0, ""},
		{"an unknown device", 60, func(r *Result) { r.To = Ends{{Type: core.DeviceROCM}} }, 0, ""},
	} {
		r := up
		r.GBPerSecond = c.rate
		c.change(&r)
		r.checkPeak(m)
		if (r.Peak == nil) != (c.peak == 0) || r.Peak != nil && r.Peak.GBPerSecond != c.peak {
			t.Errorf("%s: peak %+v", c.name, r.Peak)
		}
		if (r.Impossible == "") != (c.want == "") || c.want != "impossible" && !strings.Contains(r.Impossible, c.want) {
			t.Errorf("%s: %q", c.name, r.Impossible)
		}
	}
}
