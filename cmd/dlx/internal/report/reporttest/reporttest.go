// Package reporttest makes results for the tests of pages and figures.
package reporttest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/inventory"
)

// The devices of the report.
var (
	CUDA0  = core.DeviceID{Type: core.DeviceCUDA}
	CUDA1  = core.DeviceID{Type: core.DeviceCUDA, Index: 1}
	OpenCL = core.DeviceID{Type: core.DeviceOpenCL}
	Vulkan = core.DeviceID{Type: core.DeviceVulkan}
	ROCm   = core.DeviceID{Type: core.DeviceROCM}
)

// Hostile is text that would run if a page did not escape it.
const Hostile = `</script><script>document.title="broken"</script><img src=x onerror=alert(1)>"'`

// Report returns a report with every kind of result. It is the same each time.
func Report() benchmarks.Report {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	date := time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
	r := benchmarks.Report{Date: date, Host: machine(date), Samples: 60, MaxTime: 2 * time.Second, NumPy: "2.2.0",
		Baseline: &benchmarks.Baseline{File: "before.json", Date: date.AddDate(0, 0, -7), Tolerance: 0.05, Differs: []string{"kernel: 6.1.0-17-amd64, now 6.1.0-18-amd64"}}}
	sizes := []int64{1 << 10, 16 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20, 512 << 20}
	devices := []core.DeviceID{core.CPU, CUDA0, CUDA1, OpenCL, Vulkan, ROCm}
	for _, id := range devices[1:] {
		for _, family := range []string{"host_to_device_memcpy_ce", "device_to_host_memcpy_ce"} {
			for _, size := range sizes {
				from, to := core.CPU, id
				if family == "device_to_host_memcpy_ce" {
					from, to = id, core.CPU
				}
				c := g.bandwidth(fmt.Sprintf("%s/%v/%s", family, id, name(size)), family, from, to, size, 25, 8e3)
				c.Peak = &facts.Peak{GBPerSecond: 31.5, Source: "PCIe 16.0 GT/s x16, 128b/130b"}
				c.Memory = "pinned"
				r.Cases = append(r.Cases, c)
			}
		}
	}
	for i, from := range devices {
		for j, to := range devices {
			if from == to {
				continue
			}
			const size = 64 << 20
			c := g.bandwidth(fmt.Sprintf("exchange/%v/%v/64MiB", from, to), "exchange", from, to, size, 6+float64(4*i+j), 30e3)
			c.Way = []string{"map", "peer", "direct", "staged"}[(i*3+j)%4]
			if c.Way == "staged" {
				c.Refused = []exchange.Refusal{
					{Mechanism: exchange.Map, What: "import the memory as a file descriptor", Reason: to.String() + " has another driver UUID than the exporter"},
					{Mechanism: exchange.Direct, What: "one copy by " + from.String(), Reason: "its memory is not host-visible"}}
			}
			r.Cases = append(r.Cases, c)
			l := g.latency(fmt.Sprintf("handoff_latency/%v/%v", from, to), "handoff_latency", 1500+float64(400*i+250*j))
			l.From, l.To = benchmarks.Ends{from}, benchmarks.Ends{to}
			r.Cases = append(r.Cases, l)
		}
	}
	for i, n := range []string{"export", "import", "round_trip", "delete"} {
		c := g.latency("dlpack/"+n, "dlpack/"+n, 40*math.Pow(3, float64(i)))
		c.Kind = benchmarks.Overhead
		c.Against, c.Speed = "empty call", 0.4
		c.Baselines = []benchmarks.Series{g.series("empty call", 16)}
		c.Verdict = &benchmarks.Verdict{Target: "<= empty call + 30 ns", Value: "+24.0 ns", Met: i < 2, Text: []string{"met", "missed by 12 ns"}[i/2]}
		r.Cases = append(r.Cases, c)
	}
	impossible := g.bandwidth("device_local_copy/cuda:0", "device_local_copy", CUDA0, CUDA0, 64<<20, 5000, 1e3)
	impossible.Peak = &facts.Peak{GBPerSecond: 3350, Source: "2619 MHz x 5120 bit x 2"}
	impossible.Impossible = "above the peak of the memory, 3350 GB/s: the copy probably stayed in the cache"
	wrong := g.bandwidth("device_to_device_memcpy_read_ce/cuda:0/cuda:1", "device_to_device_memcpy_read_ce", CUDA0, CUDA1, 64<<20, 50, 1e3)
	wrong.Status, wrong.Reason = benchmarks.Failed, "wrong bytes arrived"
	wrong.Mismatch = &benchmarks.Mismatch{Offset: 4096, Wrong: 64, Of: 64 << 20, Want: "00", Got: "01", Bits: "bit 0 of byte 0", Text: "64 of 67108864 bytes are wrong, the first at 4096: bit 0 of byte 0, probably a cache line that was not flushed"}
	r.Cases = append(r.Cases, impossible, wrong,
		benchmarks.Result{Name: "hostile/" + Hostile, Family: "hostile" + Hostile, Status: benchmarks.Unsupported, Reason: Hostile},
		benchmarks.Result{Name: "host_to_device_memcpy_ce/metal:0", Family: "host_to_device_memcpy_ce", Status: benchmarks.Unsupported, Reason: "built without the tag metal"},
		benchmarks.Result{Name: "host_to_device_memcpy_ce/cuda:0/64GiB", Family: "host_to_device_memcpy_ce", Status: benchmarks.Skipped, Reason: "no room for 64 GiB on cuda:0"})
	for i := range r.Cases {
		c := &r.Cases[i]
		if slices.Contains(c.From, ROCm) || slices.Contains(c.To, ROCm) {
			c.Simulated = true
		}
		if c.Status == benchmarks.OK && i%2 == 0 {
			ratio := 1 + 0.02*g.NormFloat64()
			c.Change = &benchmarks.Change{Median: c.Median * ratio, Old: c.Median * ratio, New: c.Median, Ratio: ratio, P: 0.4}
			switch i % 14 {
			case 0:
				c.Change = &benchmarks.Change{Median: c.Median * 0.85, Old: c.Median * 0.85, New: c.Median, Ratio: 0.85, P: 0.0001, Significant: true, Slower: true}
			case 6:
				c.Change = &benchmarks.Change{Median: c.Median * 1.3, Old: c.Median * 1.3, New: c.Median, Ratio: 1.3, P: 0.0002, Significant: true}
			}
		}
	}
	return r
}

// Large returns a report with so many cases and samples of each.
func Large(cases, samples int) benchmarks.Report {
	g := generator{rand.New(rand.NewPCG(3, 4))}
	r := Report()
	r.Cases = nil
	for i := range cases {
		c := g.bandwidth(fmt.Sprintf("family_%d/cuda:%d/case%d/%s", i%25, i%4, i, name(1<<(10+i%20))), fmt.Sprintf("family_%d", i%25), core.CPU, core.DeviceID{Type: core.DeviceCUDA, Index: int32(i % 4)}, 1<<(10+i%20), 20, 5e3)
		if i%3 == 0 {
			c.Kind, c.GBPerSecond = benchmarks.Latency, 0
		}
		c.Times = g.times(c.Median, samples)
		r.Cases = append(r.Cases, c)
	}
	return r
}

type generator struct{ *rand.Rand }

func (g generator) times(median float64, n int) []float64 {
	times := make([]float64, n)
	for i := range times {
		times[i] = math.Round(1000*median*(1+0.03*math.Abs(g.NormFloat64())+0.002*g.ExpFloat64())) / 1000
	}
	return times
}

// series makes samples around a median.
func (g generator) series(baseline string, median float64) benchmarks.Series {
	times := g.times(median, 60)
	sorted := slices.Sorted(slices.Values(times))
	at := func(p float64) float64 { return sorted[int(p*float64(len(sorted)-1))] }
	return benchmarks.Series{Baseline: baseline, Iterations: 10, Times: times, Min: sorted[0], P05: at(.05), P25: at(.25), Median: at(.5), P75: at(.75), P95: at(.95), P99: at(.99), Max: at(1),
		Low: at(.4), High: at(.6), Confidence: 0.95, CV: 0.02, Spread: 0.03}
}

// bandwidth makes a case that reaches peak for large sizes, and takes at least a time in ns.
func (g generator) bandwidth(name, family string, from, to core.DeviceID, size int64, peak, least float64) benchmarks.Result {
	c := benchmarks.Result{Name: name, Description: "copies " + name, Family: family, Kind: benchmarks.Bandwidth, From: benchmarks.Ends{from}, To: benchmarks.Ends{to},
		Size: size, Bytes: size, Status: benchmarks.OK, Clock: benchmarks.DeviceClock, ClockError: 12, Verified: true}
	c.Series = g.series("", least+float64(size)/(peak*(0.8+0.2*g.Float64())))
	c.GBPerSecond = math.Round(1000*float64(size)/c.Median) / 1000
	return c
}

func (g generator) latency(name, family string, median float64) benchmarks.Result {
	return benchmarks.Result{Name: name, Description: "waits for " + name, Family: family, Kind: benchmarks.Latency, Status: benchmarks.OK, Clock: benchmarks.HostClock, ClockError: 25, Series: g.series("", median)}
}

func name(size int64) string {
	unit := "B"
	for _, next := range []string{"KiB", "MiB", "GiB"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, next
	}
	return fmt.Sprint(size) + unit
}

func machine(date time.Time) facts.Machine {
	device := func(id core.DeviceID, name, driver string, same ...core.DeviceID) facts.Device {
		d := facts.Device{Device: inventory.Device{Properties: core.Properties{ID: id, Name: name, Driver: driver, TotalMemory: 80e9}, SameHardware: same, Place: inventory.Place{Link: "16.0 GT/s PCIe x16"}},
			Memory: &facts.Peak{GBPerSecond: 3350, Source: "2619 MHz x 5120 bit x 2"}, Bus: &facts.Peak{GBPerSecond: 31.5, Source: "PCIe 16.0 GT/s x16, 128b/130b"}}
		d.Before = facts.DeviceReading{ComputeMHz: 1980, MemoryMHz: 2619, Celsius: 41, Watts: 118.4, Link: "16.0 GT/s x16"}
		d.After = d.Before
		return d
	}
	m := facts.Machine{Platform: "linux/amd64", System: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-18-amd64", Virtual: "kvm", CPU: "AMD EPYC 9554", CPUs: 16, Affinity: "0-15", NUMANodes: "0",
		Caches: []facts.Cache{{Level: 1, Kind: "data", Bytes: 32 << 10}, {Level: 2, Kind: "unified", Bytes: 1 << 20}, {Level: 3, Kind: "unified", Bytes: 32 << 20}}, Memory: 128e9, Governor: "performance",
		MemoryPeak: &facts.Peak{GBPerSecond: 460.8, Source: "12 channels of DDR5-4800"}, Load: []float64{9.2, 4.1, 2.2},
		Before: facts.Reading{Time: date, MHz: []float64{3100, 3750}, Steal: 10}, After: facts.Reading{Time: date.Add(time.Minute), MHz: []float64{3700, 3750}, Steal: 11},
		Versions: map[string]string{"Go": "go1.25.0", "glibc": "2.36", "libcuda": "12.4"}}
	host := device(core.CPU, "AMD EPYC 9554", "")
	host.Bus, host.Before, host.After = nil, facts.DeviceReading{}, facts.DeviceReading{}
	one := device(CUDA1, "NVIDIA H100 80GB HBM3", "CUDA 12.4")
	one.After.Throttled = []string{"power cap"}
	simulated := device(ROCm, "dlx simulated GPU", "simulated HIP")
	simulated.Simulated, simulated.Memory, simulated.Bus = true, nil, nil
	metal := core.DeviceID{Type: core.DeviceMetal}
	m.Devices = []facts.Device{host, device(CUDA0, "NVIDIA H100 80GB HBM3", "CUDA 12.4", OpenCL, Vulkan), one, device(OpenCL, "NVIDIA H100 80GB HBM3", "OpenCL 3.0", CUDA0, Vulkan),
		device(Vulkan, "NVIDIA H100 80GB HBM3", "NVIDIA 550.54", CUDA0, OpenCL), simulated, {Device: inventory.Device{Properties: core.Properties{ID: metal}}, Missing: "needs macOS"}}
	return m
}
