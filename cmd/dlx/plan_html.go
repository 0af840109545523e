package main

import (
	"context"
	"io"

	"github.com/dlx-go/dlx/cmd/dlx/internal/page"
	"github.com/dlx-go/dlx/cmd/dlx/internal/report"
	"github.com/dlx-go/dlx/internal/inventory"
)

// writePlanHTML writes the plan as a page.
func (a *app) writePlanHTML(ctx context.Context, path string, r planResult) error {
	p := report.Plan{Bytes: r.Bytes, Copy: string(r.Copy)}
	for _, m := range r.Missing {
		p.Missing = append(p.Missing, page.Fact{Name: m.Name, Value: m.Reason})
	}
	for _, pair := range r.Pairs {
		one := report.PlanPair{From: pair.From, To: pair.To}
		for _, w := range pair.Ways {
			one.Ways = append(one.Ways, w.onPage())
		}
		p.Pairs = append(p.Pairs, one)
	}
	backends := inventory.List(ctx, a.registry)
	return a.writeFile(context.WithoutCancel(ctx), path, func(w io.Writer) error {
		return report.WritePlan(w, a.program(), backends, p)
	})
}

// onPage is the way as a page shows it.
func (v wayResult) onPage() report.PlanWay {
	way := report.PlanWay{Memory: string(v.Memory), Reason: v.Reason}
	if v.Handle != "" {
		way.Memory += " as " + v.Handle
	}
	if v.Route == nil {
		return way
	}
	way.Mechanism, way.Copied = v.Route.Mechanism, v.Route.BytesCopied
	for _, s := range v.Route.Steps {
		way.Steps = append(way.Steps, s.What)
	}
	for _, f := range v.Route.Refused {
		way.Refused = append(way.Refused, report.PlanRefusal{Mechanism: f.Mechanism, What: f.What, Reason: f.Reason})
	}
	return way
}
