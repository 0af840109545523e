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

// Plan is what `dlx plan` has found.
type Plan struct {
	Bytes   int64 // of the tensors
	Copy    string
	Missing []page.Fact // backends and devices that are not there, with the reason
	Pairs   []PlanPair
}

// PlanPair has the ways from one device to another.
type PlanPair struct {
	From, To core.DeviceID
	Ways     []PlanWay
}

// PlanWay is the way for a tensor in one kind of memory.
type PlanWay struct {
	Memory    string
	Mechanism string // "" if nothing could be tried
	Copied    int64  // bytes
	Steps     []string
	Refused   []PlanRefusal
	Reason    string // why nothing could be tried
}

// PlanRefusal is a better way that is not possible.
type PlanRefusal struct{ Mechanism, What, Reason string }

// WritePlan writes the page of a plan. The devices are those of the machine, which say what is the same hardware.
func WritePlan(w io.Writer, program Program, devices []inventory.Backend, p Plan) error {
	out := page.Page{Title: "dlx plan", Lead: []string{fmt.Sprintf("Moves of a tensor of %s; copy: %s. Each way was tried. %s.", size(float64(p.Bytes)), p.Copy, program.name())},
		Footer: "Made by " + program.name() + ". The page loads nothing from outside."}
	possible := 0
	for _, one := range p.Pairs {
		if slices.ContainsFunc(one.Ways, PlanWay.leads) {
			possible++
		}
	}
	out.Tiles = []page.Fact{{Name: "Pairs with a way", Value: fmt.Sprintf("%d of %d", possible, len(p.Pairs))}}
	out.Sections = []page.Section{planMatrix(p), planPicture(p, devices), planSteps(p), planRefusals(p), planMissing(p)}
	return out.Write(w)
}

func (v PlanWay) leads() bool { return v.Mechanism != "" && v.Mechanism != "none" }

// tip describes a way in a tooltip.
func (v PlanWay) tip(p PlanPair) string {
	lines := []string{p.From.String() + " to " + p.To.String(), "memory: " + v.Memory, with("by", v.Mechanism), v.Reason}
	lines = append(lines, v.Steps...)
	for _, f := range v.Refused {
		lines = append(lines, "not "+f.Mechanism+": "+f.Reason)
	}
	return tip(lines...)
}

// planMatrix has a view for each kind of memory.
func planMatrix(p Plan) page.Section {
	s := page.Section{ID: "pairs", Title: "Pairs", Intro: "From the device in the row to the device in the column: alias and map copy nothing; peer and direct copy once; staged copies twice, through the host."}
	var rows, columns []string
	for _, one := range p.Pairs {
		if !slices.Contains(rows, one.From.String()) {
			rows = append(rows, one.From.String())
		}
		if !slices.Contains(columns, one.To.String()) {
			columns = append(columns, one.To.String())
		}
	}
	names := []string{"first choice", "memory that can be shared"}
	m := page.Matrix{ID: "plan-matrix", Caption: "Mechanisms", Corner: "from \\ to", Rows: rows, Columns: columns}
	for i, name := range names {
		v := page.View{Name: name, Cells: make([][]page.Pair, len(rows))}
		differs := i == 0
		for r := range v.Cells {
			v.Cells[r] = slices.Repeat([]page.Pair{{Text: "-"}}, len(columns))
		}
		for _, one := range p.Pairs {
			if len(one.Ways) == 0 {
				continue
			}
			way := one.Ways[min(i, len(one.Ways)-1)]
			differs = differs || len(one.Ways) > i
			v.Cells[slices.Index(rows, one.From.String())][slices.Index(columns, one.To.String())] =
				page.Pair{Text: orDash(way.Mechanism), Class: page.MechanismClass(way.Mechanism), Tip: way.tip(one)}
		}
		if differs {
			m.Views = append(m.Views, v)
		}
	}
	if len(m.Views) == 1 {
		m.Views[0].Name = "mechanism"
	}
	if len(rows) > 0 {
		s.Parts = append(s.Parts, m)
	}
	return s
}

// mostInPicture is the number of devices up to which a picture shows more than the matrix: with more, its lines are a tangle.
const mostInPicture = 4

// planPicture draws who reaches whom. With many devices it has no parts: the matrix shows it.
func planPicture(p Plan, backends []inventory.Backend) page.Section {
	s := page.Section{ID: "devices", Title: "Devices", Intro: "Names of the same hardware under several APIs are in one box. A line goes from a device to one that it reaches; dlx took the best way of both kinds of memory."}
	named := map[core.DeviceID]bool{}
	for _, one := range p.Pairs {
		named[one.From], named[one.To] = true, true
	}
	if len(named) > mostInPicture {
		return s
	}
	var nodes []device
	for _, b := range backends {
		for _, d := range b.Devices {
			if named[d.ID] {
				nodes = append(nodes, device{id: d.ID, name: d.Name, same: d.SameHardware, tip: tip(d.ID.String(), d.Name, d.Driver)}.kind(facts.Simulated(d.Properties), facts.Software(d.Properties)))
				delete(named, d.ID)
			}
		}
	}
	for id := range named {
		nodes = append(nodes, device{id: id, tip: id.String()})
	}
	var edges []page.Edge
	for _, one := range p.Pairs {
		if len(one.Ways) == 0 {
			continue
		}
		way := one.Ways[0]
		for _, other := range one.Ways[1:] {
			if other.leads() && (!way.leads() || other.Copied < way.Copied) {
				way = other
			}
		}
		if way.leads() {
			edges = append(edges, page.Edge{From: one.From.String(), To: one.To.String(), Mechanism: way.Mechanism, Tip: way.tip(one)})
		}
	}
	if len(nodes) > 0 {
		s.Parts = append(s.Parts, picture("plan-picture", "Who reaches whom, and how", nodes, edges))
	}
	return s
}

func planSteps(p Plan) page.Section {
	s := page.Section{ID: "steps", Title: "Steps"}
	t := page.Table{ID: "steps-table", Caption: "The steps of each way", Filter: true, Columns: []page.Column{{Name: "Pair"}, {Name: "Memory"}, {Name: "Mechanism"}, {Name: "Copied", Numeric: true}, {Name: "Steps, or why there is no way"}}}
	for _, one := range p.Pairs {
		for _, way := range one.Ways {
			copied := page.C("")
			if way.leads() {
				copied = page.N(size(float64(way.Copied)), float64(way.Copied))
			}
			t.Rows = append(t.Rows, page.Row{Cells: []page.Cell{page.C(one.From.String() + " to " + one.To.String()), page.C(way.Memory), page.C(orDash(way.Mechanism)),
				copied, page.C(strings.Join(append(slices.Clone(way.Steps), way.Reason), "; "))}})
			last := &t.Rows[len(t.Rows)-1].Cells[4]
			last.Text = strings.Trim(last.Text, "; ")
		}
	}
	if len(t.Rows) > 0 {
		s.Parts = append(s.Parts, t)
	}
	return s
}

func planRefusals(p Plan) page.Section {
	s := page.Section{ID: "refused", Title: "Refused", Intro: "The better ways that are not possible, and why."}
	t := page.Table{ID: "refused-table", Caption: "Refused ways", Filter: true, Columns: []page.Column{{Name: "Pair"}, {Name: "Memory"}, {Name: "Taken"}, {Name: "Refused"}, {Name: "Way"}, {Name: "Reason"}}}
	for _, one := range p.Pairs {
		for _, way := range one.Ways {
			for _, f := range way.Refused {
				t.Rows = append(t.Rows, page.Row{Cells: []page.Cell{page.C(one.From.String() + " to " + one.To.String()), page.C(way.Memory), page.C(orDash(way.Mechanism)), page.C(f.Mechanism), page.C(f.What), page.C(f.Reason)}})
			}
		}
	}
	if len(t.Rows) > 0 {
		s.Parts = append(s.Parts, t)
	}
	return s
}

func planMissing(p Plan) page.Section {
	s := page.Section{ID: "missing", Title: "Not available"}
	t := page.Table{ID: "missing-table", Caption: "Backends and devices that are not available", Columns: []page.Column{{Name: "Name"}, {Name: "Reason"}}}
	for _, m := range p.Missing {
		t.Rows = append(t.Rows, page.Row{Cells: []page.Cell{page.C(m.Name), page.C(m.Value)}})
	}
	if len(t.Rows) > 0 {
		s.Parts = append(s.Parts, t)
	}
	return s
}
