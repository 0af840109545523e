// Package report writes the pages of the command: the report of a benchmark, the devices of the machine, and the plan of
// the moves between them.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/cmd/dlx/internal/page"
	"github.com/dlx-go/dlx/core"
)

// MaxData is the most that the compressed data of a page may be, in bytes. Beyond it the page has no single samples.
const MaxData = 1 << 20

// Program is the program that made a report.
type Program struct {
	Version  string
	Revision string // "" if it is not known
	Go       string
	Platform string
	Tags     []string
}

// name is the program in one line.
func (p Program) name() string {
	text := "dlx " + p.Version
	if len(p.Revision) > 12 {
		text += ", revision " + p.Revision[:12]
	} else if p.Revision != "" {
		text += ", revision " + p.Revision
	}
	text += ", " + p.Go + ", " + p.Platform
	if len(p.Tags) > 0 {
		text += ", tags " + strings.Join(p.Tags, " ")
	}
	return text
}

// WriteBench writes the page of a report. The page offers the JSON of document for download, which is given the report,
// or a report without single samples if the page would be too large with them. Without a document, it is the report itself.
func WriteBench(w io.Writer, program Program, r benchmarks.Report, document func(benchmarks.Report) any) error {
	data, note, err := pack(r, document)
	if err != nil {
		return err
	}
	p := page.Page{
		Title:    "dlx bench: " + orDash(machineName(r)),
		Lead:     []string{r.Date.Format("2 January 2006, 15:04:05 MST") + ". " + program.name() + "."},
		Alerts:   alerts(r),
		Tiles:    tiles(r),
		Data:     data,
		DataName: "dlx-bench-" + r.Date.UTC().Format("20060102-150405") + ".json",
		DataNote: note,
		Footer:   "Made by " + program.name() + ". The page loads nothing from outside.",
	}
	p.Sections = []page.Section{bandwidth(r), latency(r), pairs(r), devices(r), comparison(r), refused(r), cases(r), machine(r), unmeasured(r), targets(r)}
	return p.Write(w)
}

// pack returns the JSON of the document, and what to say about it.
func pack(r benchmarks.Report, document func(benchmarks.Report) any) (data []byte, note string, err error) {
	if document == nil {
		document = func(r benchmarks.Report) any { return r }
	}
	if data, err = json.Marshal(document(r)); err != nil {
		return nil, "", err
	}
	packed, err := page.Pack(data)
	if err != nil || len(packed) <= MaxData {
		return data, "", err
	}
	r.Cases = slices.Clone(r.Cases)
	for i := range r.Cases {
		c := &r.Cases[i]
		c.Times, c.Blocks = nil, nil
		c.Baselines = slices.Clone(c.Baselines)
		for j := range c.Baselines {
			c.Baselines[j].Times, c.Baselines[j].Blocks = nil, nil
		}
	}
	data, err = json.Marshal(document(r))
	return data, "The JSON of this page has percentiles but no single samples, to keep the page small. A later run can be compared only with a file that --json-file wrote.", err
}

func machineName(r benchmarks.Report) string {
	var accelerators []string
	for _, d := range r.Host.Devices {
		if d.ID != core.CPU && d.Missing == "" && !d.Software && !d.Simulated && d.Name != "" && !slices.Contains(accelerators, d.Name) {
			accelerators = append(accelerators, d.Name)
		}
	}
	name := strings.TrimSpace(r.Host.CPU)
	if name == "" {
		name = r.Host.Platform
	}
	return strings.Join(append(accelerators, name), ", ")
}

// statuses counts the cases of a status.
func statuses(r benchmarks.Report, s benchmarks.Status) (n int) {
	for _, c := range r.Cases {
		if c.Status == s {
			n++
		}
	}
	return n
}

// tiles are the figures of the headline.
func tiles(r benchmarks.Report) []page.Fact {
	missing := statuses(r, benchmarks.Unsupported) + statuses(r, benchmarks.Skipped)
	measured := page.Fact{Name: "Cases measured", Value: fmt.Sprint(statuses(r, benchmarks.OK)), Note: "all of them"}
	if missing > 0 {
		measured.Note = many(missing, "case") + " not measured"
	}
	list := []page.Fact{measured}
	if n := statuses(r, benchmarks.Failed); n > 0 {
		list = append(list, page.Fact{Name: "Failed", Value: fmt.Sprint(n)})
	}
	between, within, quickest := headlines(bestOf(r))
	if between != nil {
		list = append(list, page.Fact{Name: "Fastest path between devices", Value: rate(between.GBPerSecond), Note: between.Name})
	}
	if within != nil {
		list = append(list, page.Fact{Name: "Fastest copy within a device", Value: rate(within.GBPerSecond), Note: within.Name})
	}
	if quickest != nil {
		list = append(list, page.Fact{Name: "Lowest latency between devices", Value: duration(quickest.Median), Note: quickest.Name})
	}
	if r.Baseline != nil {
		slower, faster := changes(r)
		list = append(list, page.Fact{Name: "Against the baseline", Value: fmt.Sprintf("%d slower", slower), Note: fmt.Sprintf("%d faster", faster)})
	}
	met, limits := 0, 0
	for _, c := range r.Cases {
		if v := c.Verdict; v != nil && c.Status == benchmarks.OK && !strings.HasPrefix(v.Text, "not measured") {
			limits++
			if v.Met {
				met++
			}
		}
	}
	if limits > 0 {
		list = append(list, page.Fact{Name: "Targets of the project met", Value: fmt.Sprintf("%d of %d", met, limits)})
	}
	return list
}

// headlines returns the best cells of the matrix of pairs: of two devices, of one, and the lowest latency between two. What is simulated or
// cannot be true is none of them.
func headlines(found map[pair]*best) (between, within, quickest *benchmarks.Result) {
	for p, b := range found {
		fastest := &between
		if p.from == p.to {
			fastest = &within
		}
		if c := b.bandwidth; c != nil && plausible(*c) && (*fastest == nil || c.GBPerSecond > (*fastest).GBPerSecond || c.GBPerSecond == (*fastest).GBPerSecond && c.Name < (*fastest).Name) {
			*fastest = c
		}
		if c := b.latency; p.from != p.to && c != nil && plausible(*c) && (quickest == nil || c.Median < quickest.Median || c.Median == quickest.Median && c.Name < quickest.Name) {
			quickest = c
		}
	}
	return between, within, quickest
}

// plausible reports whether a result may be in a headline.
func plausible(c benchmarks.Result) bool {
	return c.Status == benchmarks.OK && !c.Simulated && c.Impossible == "" && c.Mismatch == nil
}

// changes counts the cases that are significantly slower, beyond the tolerance, and faster.
func changes(r benchmarks.Report) (slower, faster int) {
	for _, c := range r.Cases {
		switch {
		case c.Change == nil:
		case c.Change.Slower:
			slower++
		case c.Change.Significant && c.Change.Ratio > 1:
			faster++
		}
	}
	return slower, faster
}

// noisy is the coefficient of variation above which other programs have disturbed a measurement.
const noisy = 0.1

// alerts are what a reader must know before the figures.
func alerts(r benchmarks.Report) (all []page.Alert) {
	collect := func(kind, text string, say func(benchmarks.Result) string) {
		var items []string
		for _, c := range r.Cases {
			if s := say(c); s != "" {
				items = append(items, c.Name+": "+s)
			}
		}
		if len(items) > 0 {
			all = append(all, page.Alert{Kind: kind, Text: fmt.Sprintf(text, many(len(items), "case")), Items: items})
		}
	}
	if r.Interrupted {
		all = append(all, page.Alert{Kind: "warn", Text: "The run was interrupted: not all cases were measured."})
	}
	if r.Shortened != "" {
		all = append(all, page.Alert{Kind: "warn", Text: "There was no time for all: " + r.Shortened + "."})
	}
	collect("bad", "Wrong bytes arrived: %s.", func(c benchmarks.Result) string {
		if c.Mismatch == nil {
			return ""
		}
		return orDash(c.Mismatch.Text)
	})
	collect("bad", "Errors: %s.", func(c benchmarks.Result) string {
		if c.Status != benchmarks.Failed || c.Mismatch != nil {
			return ""
		}
		return orDash(c.Reason)
	})
	collect("bad", "Faster than the bus or the memory can be, and so not to be believed: %s.", func(c benchmarks.Result) string { return c.Impossible })
	if slower, _ := changes(r); slower > 0 {
		all = append(all, page.Alert{Kind: "bad", Text: fmt.Sprintf("Slower than the baseline beyond the tolerance: %s.", many(slower, "case"))})
	}
	if b := r.Baseline; b != nil && b.Common != nil && b.Common.Slower {
		all = append(all, page.Alert{Kind: "bad", Text: "Most cases are slower than the baseline, and other code is not: " + b.Common.String() + "."})
	}
	if r.Baseline != nil && len(r.Baseline.Differs) > 0 && !r.Baseline.ByTurns { // that programs differ is why they are measured by turns
		all = append(all, page.Alert{Kind: "warn", Text: "The baseline was not measured on the same machine with the same program.", Items: r.Baseline.Differs})
	}
	if reasons := disturbed(r); len(reasons) > 0 {
		all = append(all, page.Alert{Kind: "warn", Text: "The machine was not quiet: small differences mean nothing.", Items: reasons})
	}
	collect("note", "Simulated devices, which have no speed of their own; each of their lines is marked: %s.", func(c benchmarks.Result) string {
		if !c.Simulated || c.Status != benchmarks.OK {
			return ""
		}
		return "simulated"
	})
	return all
}

// disturbed returns the signs of other load, and of clocks that were held down.
func disturbed(r benchmarks.Report) (reasons []string) {
	noise, measured := 0, 0
	for _, c := range r.Cases {
		if c.Status == benchmarks.OK && len(c.Times) > 1 {
			measured++
			if c.CV > noisy {
				noise++
			}
		}
	}
	if measured > 0 && noise*10 > measured {
		reasons = append(reasons, fmt.Sprintf("%d of %d cases vary by more than 10%% (coefficient of variation)", noise, measured))
	}
	h := r.Host
	if len(h.Load) > 0 && h.CPUs > 0 && h.Load[0] > float64(h.CPUs)/2 {
		reasons = append(reasons, fmt.Sprintf("the load was %.1f before the run, on %d CPUs", h.Load[0], h.CPUs))
	}
	if stolen, took := h.After.Steal-h.Before.Steal, h.After.Time.Sub(h.Before.Time); h.CPUs > 0 && took > time.Second && stolen > 0.02*took.Seconds()*float64(h.CPUs) {
		reasons = append(reasons, fmt.Sprintf("the hypervisor took %.1f s of the processors' time", stolen))
	}
	for _, d := range h.Devices {
		if held := slices.Concat(d.Before.Throttled, d.After.Throttled); len(held) > 0 {
			slices.Sort(held)
			reasons = append(reasons, fmt.Sprintf("the clocks of %v were held down: %s", d.ID, strings.Join(slices.Compact(held), ", ")))
		}
	}
	return reasons
}
