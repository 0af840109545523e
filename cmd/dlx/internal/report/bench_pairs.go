package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/cmd/dlx/internal/page"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/inventory"
)

// ends returns the one device that a case reads and the one that it writes.
func ends(c benchmarks.Result) (from, to core.DeviceID, ok bool) {
	if len(c.From) != 1 || len(c.To) != 1 {
		return from, to, false
	}
	return c.From[0], c.To[0], true
}

// named returns the devices of the report's cases and of its machine that are there, sorted by type and number, the host first.
func named(r benchmarks.Report) (ids []core.DeviceID) {
	seen := map[core.DeviceID]bool{}
	add := func(id core.DeviceID) {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	for _, d := range r.Host.Devices {
		if d.Missing == "" {
			add(d.ID)
		}
	}
	for _, c := range r.Cases {
		if c.Status == benchmarks.OK {
			for _, id := range slices.Concat(c.From, c.To) {
				add(id)
			}
		}
	}
	slices.SortFunc(ids, compareIDs)
	return ids
}

func compareIDs(a, b core.DeviceID) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Index, b.Index))
}

type pair struct{ from, to core.DeviceID }

// best holds the cases of a pair that its cell shows.
type best struct {
	bandwidth, latency, way *benchmarks.Result
}

// bestOf finds for each pair the fastest case of each kind, and the largest with a mechanism. A result that cannot be true
// is not taken if there is another.
func bestOf(r benchmarks.Report) map[pair]*best {
	found := map[pair]*best{}
	for i := range r.Cases {
		c := &r.Cases[i]
		from, to, ok := ends(*c)
		if !ok || c.Status != benchmarks.OK {
			continue
		}
		b := found[pair{from, to}]
		if b == nil {
			b = &best{}
			found[pair{from, to}] = b
		}
		better := func(old *benchmarks.Result, faster bool) bool {
			if old == nil || (old.Impossible == "") != (c.Impossible == "") {
				return old == nil || c.Impossible == ""
			}
			return faster
		}
		if c.GBPerSecond > 0 && c.Kind != benchmarks.Latency && better(b.bandwidth, b.bandwidth != nil && c.GBPerSecond > b.bandwidth.GBPerSecond) {
			b.bandwidth = c
		}
		if c.Kind == benchmarks.Latency && c.Median > 0 && better(b.latency, b.latency != nil && c.Median < b.latency.Median) {
			b.latency = c
		}
		if c.Way != "" && (b.way == nil || c.Size > b.way.Size) {
			b.way = c
		}
	}
	return found
}

// pairs is the matrix of devices with devices.
func pairs(r benchmarks.Report) page.Section {
	s := page.Section{ID: "pairs", Title: "Pairs", Intro: "From the device in the row to the device in the column. The arrow keys move between the cells; each names the case behind its value."}
	found := bestOf(r)
	if len(found) == 0 {
		return s
	}
	var ids []core.DeviceID
	for _, id := range named(r) {
		for p := range found {
			if p.from == id || p.to == id {
				ids = append(ids, id)
				break
			}
		}
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
	}
	view := func(name, note string, less bool, cell func(best) page.Pair) page.View {
		v := page.View{Name: name, Note: note, Log: true, Less: less}
		for _, from := range ids {
			row := make([]page.Pair, len(ids))
			for i, to := range ids {
				row[i] = page.Pair{Text: "-"}
				if b := found[pair{from, to}]; b != nil {
					row[i] = cell(*b)
				}
			}
			v.Cells = append(v.Cells, row)
		}
		return v
	}
	mark := func(c benchmarks.Result, text string) string {
		if c.Simulated {
			text += " sim"
		}
		if c.Impossible != "" {
			text += " !"
		}
		return text
	}
	none := page.Pair{Text: "-"}
	s.Parts = append(s.Parts, page.Matrix{ID: "pairs-matrix", Caption: "Pairs of devices", Corner: "from \\ to", Rows: names, Columns: names, Views: []page.View{
		view("bandwidth", "The most that any case of the pair reached, in GB/s. Darker, or brighter on a dark page, is more.", false, func(b best) page.Pair {
			if b.bandwidth == nil {
				return none
			}
			return page.Pair{Text: mark(*b.bandwidth, digits(b.bandwidth.GBPerSecond)), Value: b.bandwidth.GBPerSecond, Outlier: b.bandwidth.Impossible != "", Tip: caseTip(*b.bandwidth)}
		}),
		view("latency", "The least median of the pair's latency cases. Darker, or brighter on a dark page, is less.", true, func(b best) page.Pair {
			if b.latency == nil {
				return none
			}
			return page.Pair{Text: mark(*b.latency, duration(b.latency.Median)), Value: b.latency.Median, Tip: caseTip(*b.latency)}
		}),
		view("mechanism", "How the largest tensor of the pair went: alias and map copy nothing; peer and direct copy once; staged copies twice, through the host.", false, func(b best) page.Pair {
			if b.way == nil {
				return none
			}
			return page.Pair{Text: mark(*b.way, b.way.Way), Class: page.MechanismClass(b.way.Way), Tip: wayTip(*b.way)}
		}),
	}})
	return s
}

// wayTip says by which way a case went, and why not by a better one.
func wayTip(c benchmarks.Result) string {
	lines := []string{c.Name, "by " + c.Way}
	for _, f := range c.Refused {
		lines = append(lines, fmt.Sprintf("not %v: %s", f.Mechanism, f.Reason))
	}
	return tip(lines...)
}

// devices is the picture of who reaches whom.
func devices(r benchmarks.Report) page.Section {
	s := page.Section{ID: "devices", Title: "Devices", Intro: "Names of the same hardware under several APIs are in one box. A line goes from a device to one that it reached, by the mechanism of the largest tensor."}
	var there []facts.Device
	for _, id := range named(r) {
		d := facts.Device{Device: inventory.Device{Properties: core.Properties{ID: id}}}
		if known := r.Host.Find(id); known != nil {
			d = *known
		}
		there = append(there, d)
	}
	if len(there) == 0 {
		return s
	}
	var nodes []device
	for _, d := range there {
		n := device{id: d.ID, name: d.Name, same: d.SameHardware, tip: tip(d.ID.String(), d.Name, d.Driver, with("memory", memory(d.TotalMemory)), d.Link)}
		nodes = append(nodes, n.kind(d.Simulated, d.Software))
	}
	var edges []page.Edge
	found := bestOf(r)
	for _, from := range there {
		for _, to := range there {
			b := found[pair{from.ID, to.ID}]
			if b == nil {
				continue
			}
			e := page.Edge{From: from.ID.String(), To: to.ID.String(), Mechanism: "measured"}
			lines := []string{e.From + " to " + e.To}
			if b.way != nil {
				e.Mechanism = b.way.Way
				lines = append(lines, strings.Split(wayTip(*b.way), "\n")[1:]...)
			}
			if b.bandwidth != nil {
				lines = append(lines, rate(b.bandwidth.GBPerSecond)+" ("+b.bandwidth.Name+")")
			}
			if b.latency != nil {
				lines = append(lines, duration(b.latency.Median)+" ("+b.latency.Name+")")
			}
			e.Tip = tip(lines...)
			edges = append(edges, e)
		}
	}
	s.Parts = append(s.Parts, picture("devices-picture", "Who reaches whom, and how", nodes, edges))
	return s
}
