package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/cmd/dlx/internal/page"
)

// machine shows all that is known of the machine.
func machine(r benchmarks.Report) page.Section {
	h := r.Host
	s := page.Section{ID: "machine", Title: "Machine"}
	var caches []string
	for _, c := range h.Caches {
		caches = append(caches, fmt.Sprintf("L%d %s %s", c.Level, c.Kind, size(float64(c.Bytes))))
	}
	s.Parts = append(s.Parts, page.Facts{Title: "Host", List: []page.Fact{
		{Name: "Processor", Value: h.CPU}, {Name: "Processors that Go may use", Value: count(h.CPUs)}, {Name: "Affinity", Value: h.Affinity},
		{Name: "NUMA nodes", Value: h.NUMANodes}, {Name: "Caches", Value: strings.Join(caches, ", ")}, {Name: "Memory", Value: memory(h.Memory)}, peakFact("Peak of the memory", h.MemoryPeak),
		{Name: "System", Value: h.System}, {Name: "Kernel", Value: h.Kernel}, {Name: "Platform", Value: h.Platform}, {Name: "Hypervisor", Value: h.Virtual}, {Name: "Container", Value: h.Container},
		{Name: "Governor of the clocks", Value: h.Governor}, {Name: "Clocks before", Value: clocks(h.Before.MHz)}, {Name: "Clocks after", Value: clocks(h.After.MHz)},
		{Name: "Load before", Value: numbers(h.Load), Note: "averages of 1, 5 and 15 minutes"}, {Name: "Taken by the hypervisor", Value: steal(h)},
	}})
	var versions []page.Fact
	for _, name := range slices.Sorted(maps.Keys(h.Versions)) {
		versions = append(versions, page.Fact{Name: name, Value: h.Versions[name]})
	}
	if r.NumPy != "" && h.Versions["NumPy"] == "" {
		versions = append(versions, page.Fact{Name: "NumPy", Value: r.NumPy})
	}
	if len(versions) > 0 {
		s.Parts = append(s.Parts, page.Facts{Title: "Versions", List: versions})
	}
	s.Parts = append(s.Parts, page.Facts{Title: "Run", List: []page.Fact{
		{Name: "Samples for each case", Value: count(r.Samples)}, {Name: "Time for the samples of a case, at most", Value: r.MaxTime.String()}}})
	if len(h.Devices) > 0 {
		s.Parts = append(s.Parts, deviceTable(h.Devices))
	}
	return s
}

func peakFact(name string, p *facts.Peak) page.Fact {
	if p == nil {
		return page.Fact{}
	}
	return page.Fact{Name: name, Value: rate(p.GBPerSecond), Note: p.Source}
}

// clocks summarizes the clocks of the processors.
func clocks(mhz []float64) string {
	if len(mhz) == 0 {
		return ""
	}
	least, most := slices.Min(mhz), slices.Max(mhz)
	if most-least < 1 {
		return fmt.Sprintf("%.0f MHz", most)
	}
	return fmt.Sprintf("%.0f to %.0f MHz", least, most)
}

func numbers(list []float64) string {
	text := make([]string, len(list))
	for i, v := range list {
		text[i] = fmt.Sprintf("%.2f", v)
	}
	return strings.Join(text, ", ")
}

func steal(h facts.Machine) string {
	if h.Before.Time.IsZero() || h.After.Time.IsZero() {
		return ""
	}
	return fmt.Sprintf("%.1f s in %.0f s", h.After.Steal-h.Before.Steal, h.After.Time.Sub(h.Before.Time).Seconds())
}

// deviceTable shows the devices, with their state before and after.
func deviceTable(all []facts.Device) page.Table {
	t := page.Table{ID: "machine-devices", Caption: "Devices", Columns: []page.Column{{Name: "Device"}, {Name: "Name"}, {Name: "Driver"}, {Name: "Memory", Numeric: true}, {Name: "Peak of the memory", Numeric: true},
		{Name: "Peak of the bus", Numeric: true}, {Name: "Before"}, {Name: "After"}, {Name: "State"}}}
	for _, d := range all {
		state := page.Cell{Text: "real", Mark: "good"}
		row := page.Row{}
		switch {
		case d.Missing != "":
			state = page.C("not there: " + d.Missing)
		case d.Simulated:
			state, row.Class = page.Cell{Text: "simulated", Mark: "sim"}, "sim"
		case d.Software:
			state = page.Cell{Text: "computes on the CPU", Mark: "warn"}
		}
		row.Cells = []page.Cell{page.C(d.ID.String()), {Text: d.Name, Note: d.PCI}, {Text: d.Driver, Note: d.Link}, page.N(memory(d.TotalMemory), float64(d.TotalMemory)),
			peakCell(d.Memory), peakCell(d.Bus), page.C(reading(d.Before)), page.C(reading(d.After)), state}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func peakCell(p *facts.Peak) page.Cell {
	if p == nil {
		return page.Cell{}
	}
	return page.Cell{Text: rate(p.GBPerSecond), Note: p.Source, Sort: p.GBPerSecond}
}

// reading is the state of a device in one line.
func reading(r facts.DeviceReading) string {
	var parts []string
	add := func(n int, unit string) {
		if n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, unit))
		}
	}
	add(r.ComputeMHz, "MHz")
	add(r.MemoryMHz, "MHz of the memory")
	add(r.Celsius, "°C")
	if r.Watts > 0 {
		parts = append(parts, digits(r.Watts)+" W")
	}
	if r.Link != "" {
		parts = append(parts, r.Link)
	}
	if len(r.Throttled) > 0 {
		parts = append(parts, "held down: "+strings.Join(r.Throttled, ", "))
	}
	if r.Reason != "" {
		parts = append(parts, r.Reason)
	}
	return strings.Join(parts, ", ")
}
