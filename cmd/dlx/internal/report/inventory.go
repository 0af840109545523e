package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/cmd/dlx/internal/page"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/inventory"
)

// WriteDevices writes the page of the backends and devices of this machine, with hints to what may be wrong.
func WriteDevices(w io.Writer, program Program, backends []inventory.Backend, hints []inventory.Hint) error {
	p := page.Page{Title: "dlx devices", Lead: []string{program.name() + "."}, Footer: "Made by " + program.name() + ". The page loads nothing from outside."}
	available, n := 0, 0
	for _, b := range backends {
		if b.Available {
			available++
		}
		n += len(b.Devices)
		if b.Error != "" {
			p.Alerts = append(p.Alerts, page.Alert{Kind: "bad", Text: b.Name + ": " + b.Error})
		}
	}
	for _, h := range hints {
		p.Alerts = append(p.Alerts, page.Alert{Kind: "warn", Text: h.Problem, Items: []string{h.Remedy}})
	}
	p.Tiles = []page.Fact{{Name: "Backends available", Value: fmt.Sprintf("%d of %d", available, len(backends))}, {Name: "Devices", Value: fmt.Sprint(n)}}
	p.Sections = []page.Section{sameHardware(backends), backendTable(backends), featureMatrix(backends), deviceFacts(backends)}
	return p.Write(w)
}

// sameHardware shows the devices, those of the same hardware together.
func sameHardware(backends []inventory.Backend) page.Section {
	s := page.Section{ID: "picture", Title: "Picture", Intro: "The host is in the middle. Names of the same hardware under several APIs are in one box. dlx plan --html shows how they reach each other."}
	var nodes []device
	var edges []page.Edge
	for _, b := range backends {
		for _, d := range b.Devices {
			n := device{id: d.ID, name: d.Name, same: d.SameHardware, tip: tip(d.ID.String(), d.Name, d.Driver, with("memory", memory(d.TotalMemory)), with("link", d.Link), with("NUMA node", d.NUMANodes))}
			nodes = append(nodes, n.kind(facts.Simulated(d.Properties), facts.Software(d.Properties)))
			if d.ID != core.CPU && d.Link != "" {
				edges = append(edges, page.Edge{From: core.CPU.String(), To: d.ID.String(), Mechanism: d.Link, Tip: "link of " + d.ID.String() + ": " + d.Link})
			}
		}
	}
	if len(nodes) > 0 {
		s.Parts = append(s.Parts, picture("devices-picture", "Devices of this machine", nodes, edges))
	}
	return s
}

func backendTable(backends []inventory.Backend) page.Section {
	s := page.Section{ID: "backends", Title: "Backends"}
	t := page.Table{ID: "backends-table", Caption: "Backends", Columns: []page.Column{{Name: "Backend"}, {Name: "State"}, {Name: "Version"}, {Name: "Devices", Numeric: true}, {Name: "Why not"}}}
	for _, b := range backends {
		state := page.Cell{Text: "available", Mark: "good"}
		switch {
		case !b.BuiltIn:
			state = page.C("not built")
		case !b.Available:
			state = page.Cell{Text: "not available", Mark: "warn"}
		}
		t.Rows = append(t.Rows, page.Row{Cells: []page.Cell{page.C(b.Name), state, page.C(b.Version), page.N(fmt.Sprint(len(b.Devices)), float64(len(b.Devices))), page.C(tip(b.Reason, b.Error))}})
	}
	if len(t.Rows) > 0 {
		s.Parts = append(s.Parts, t)
	}
	return s
}

// featureMatrix shows which device has which feature, with the reason for each that it lacks.
func featureMatrix(backends []inventory.Backend) page.Section {
	s := page.Section{ID: "features", Title: "Features", Intro: "What a device can do, and why not. The arrow keys move between the cells; the reasons are in the table below, too."}
	var names []string
	var columns []string
	type key struct{ feature, device string }
	found := map[key]core.Feature{}
	for _, b := range backends {
		for _, d := range b.Devices {
			columns = append(columns, d.ID.String())
			for _, f := range slices.Concat(b.Features, d.Features) {
				if !slices.Contains(names, f.Name) {
					names = append(names, f.Name)
				}
				found[key{f.Name, d.ID.String()}] = f
			}
		}
	}
	if len(names) == 0 {
		return s
	}
	slices.Sort(names)
	m := page.Matrix{ID: "features-matrix", Caption: "Features of devices", Corner: "feature", Rows: names, Columns: columns, Views: []page.View{{Name: "available"}}}
	reasons := page.Table{ID: "features-table", Caption: "Features that are missing, and why", Filter: true, Columns: []page.Column{{Name: "Feature"}, {Name: "Device"}, {Name: "Reason"}}}
	for _, name := range names {
		row := make([]page.Pair, len(columns))
		for i, column := range columns {
			f, ok := found[key{name, column}]
			switch {
			case !ok:
				row[i] = page.Pair{Text: "-"}
			case f.Available:
				row[i] = page.Pair{Text: "yes", Class: "m-alias", Tip: tip(name+" on "+column, "available")}
			default:
				row[i] = page.Pair{Text: "no", Class: "m-none", Tip: tip(name+" on "+column, "not available: "+f.Reason)}
				reasons.Rows = append(reasons.Rows, page.Row{Cells: []page.Cell{page.C(name), page.C(column), page.C(f.Reason)}})
			}
		}
		m.Views[0].Cells = append(m.Views[0].Cells, row)
	}
	s.Parts = append(s.Parts, m)
	if len(reasons.Rows) > 0 {
		s.Parts = append(s.Parts, reasons)
	}
	return s
}

func deviceFacts(backends []inventory.Backend) page.Section {
	s := page.Section{ID: "facts", Title: "Devices"}
	for _, b := range backends {
		for _, d := range b.Devices {
			s.Parts = append(s.Parts, page.Facts{Title: d.ID.String(), List: []page.Fact{
				{Name: "Name", Value: d.Name}, {Name: "Driver", Value: d.Driver}, {Name: "UUID", Value: uuid(d.UUID)}, {Name: "UUID of the driver", Value: uuid(d.DriverUUID)},
				{Name: "PCI", Value: d.PCI}, {Name: "Link", Value: d.Link}, {Name: "NUMA nodes", Value: d.NUMANodes}, {Name: "Same hardware", Value: list(d.SameHardware)},
				{Name: "Compute units", Value: count(d.ComputeUnits)}, {Name: "Queues", Value: count(d.Queues)}, {Name: "Memory", Value: memory(d.TotalMemory)},
				{Name: "Free memory", Value: memory(d.FreeMemory)}, {Name: "Alignment", Value: fmt.Sprintf("%d B", d.Alignment)}, {Name: "Capabilities", Value: strings.Join(d.Capabilities, ", ")},
			}})
		}
	}
	return s
}

func uuid(u core.UUID) string {
	if u == (core.UUID{}) {
		return ""
	}
	return u.String()
}
