// Package figure sorts the results of a benchmark into charts. The report and the single figures share it.
package figure

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/core"
)

// Chart is a set of lines that belong together.
type Chart struct {
	Title string
	Lines []Line
}

// Line is a line of a chart: cases that differ in their size only, by size.
type Line struct {
	Name  string
	Cases []benchmarks.Result
}

// Size returns the size that a case is drawn at, in bytes.
func Size(c benchmarks.Result) int64 { return cmp.Or(c.Size, c.Bytes) }

// Family returns the family of a case. For a case that has none, it is the name without a size at its end.
func Family(c benchmarks.Result) string {
	if c.Family != "" {
		return c.Family
	}
	if i := strings.LastIndexByte(c.Name, '/'); i > 0 && isSize(c.Name[i+1:]) {
		return c.Name[:i]
	}
	return c.Name
}

func isSize(s string) bool {
	number := strings.TrimRight(s, "KMGTiB")
	_, err := strconv.ParseInt(number, 10, 64)
	return err == nil && number != s
}

// Path says from where to where a case moves: "cuda:0 to vulkan:0", with the memory and the number of streams if they
// matter. It is "" for a case that has no ends.
func Path(c benchmarks.Result) string {
	var parts []string
	switch {
	case len(c.From) > 0 && len(c.To) > 0 && slices.Equal(c.From, c.To):
		parts = append(parts, "in "+names(c.From))
	case len(c.From) > 0 && len(c.To) > 0:
		parts = append(parts, names(c.From)+" to "+names(c.To))
	case len(c.From) > 0:
		parts = append(parts, "from "+names(c.From))
	case len(c.To) > 0:
		parts = append(parts, "to "+names(c.To))
	}
	if c.Memory != "" {
		parts = append(parts, c.Memory)
	}
	if c.Streams > 1 {
		parts = append(parts, strconv.Itoa(c.Streams)+" streams")
	}
	return strings.Join(parts, ", ")
}

// Variant is what the name of a case says besides its family, its path and its size: "direct" for "file_to_device/cpu/direct",
// and "" for most cases.
func Variant(c benchmarks.Result) string {
	rest, ok := strings.CutPrefix(c.Name, c.Family+"/")
	if !ok || c.Family == "" {
		return ""
	}
	var parts []string
	for part := range strings.SplitSeq(rest, "/") {
		device := func(id core.DeviceID) bool { return id.String() == part }
		switch {
		case isSize(part), part == strconv.FormatInt(Size(c), 10), slices.ContainsFunc(c.From, device), slices.ContainsFunc(c.To, device):
		case part == c.Memory, part == strconv.Itoa(c.Streams):
		default:
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

// Label is the path of a case and its variant, "" for a case without ends.
func Label(c benchmarks.Result) string {
	path, more := Path(c), Variant(c)
	if path == "" || more == "" {
		return path
	}
	return path + ", " + more
}

func names(ends benchmarks.Ends) string {
	list := make([]string, len(ends))
	for i, id := range ends {
		list[i] = id.String()
	}
	return strings.Join(list, "+")
}

// Bandwidth returns the charts of bandwidth over size, with at most so many lines in each, and the lines of one size only,
// which are points. Of cases with the same path, variant and size, it has the first.
func Bandwidth(cases []benchmarks.Result, lines int) (charts []Chart, rest []Line) {
	groups := group(cases, func(c benchmarks.Result) bool {
		return c.Status == benchmarks.OK && c.GBPerSecond > 0 && Size(c) > 0 && c.Kind != benchmarks.Latency
	})
	var alone []Line // of families that would be a chart with one line
	for _, g := range groups {
		var kept []Line
		for _, l := range g.Lines {
			// The same memory may be measured twice: asked for, and chosen by default.
			l.Cases = slices.CompactFunc(l.Cases, func(a, b benchmarks.Result) bool { return Size(a) == Size(b) })
			if several(l.Cases) {
				kept = append(kept, l)
			} else {
				rest = append(rest, l)
			}
		}
		if len(kept) == 1 {
			l := kept[0]
			if l.Name != g.Title {
				l.Name = g.Title + ", " + l.Name
			}
			alone = append(alone, l)
			continue
		}
		if len(kept) > 0 {
			charts = append(charts, split(Chart{g.Title, kept}, lines)...)
		}
	}
	return append(charts, together(alone, lines)...), rest
}

// several reports whether there are cases of more than one size.
func several(cases []benchmarks.Result) bool {
	return slices.ContainsFunc(cases, func(c benchmarks.Result) bool { return Size(c) != Size(cases[0]) })
}

// Latency returns the charts of cases whose time counts, each case as a line of its own, with at most so many in a chart.
// Families of one case share charts by how their names begin.
func Latency(cases []benchmarks.Result, lines int) (charts []Chart) {
	counts := func(c benchmarks.Result) bool {
		return c.Status == benchmarks.OK && len(c.Times) > 1 && (c.Kind == benchmarks.Latency || c.Kind == benchmarks.Overhead || c.Kind == "" && c.GBPerSecond == 0)
	}
	var alone []Line
	for _, g := range group(cases, counts) {
		var all []Line
		for _, l := range g.Lines {
			for _, c := range l.Cases {
				all = append(all, Line{strings.TrimPrefix(c.Name, g.Title+"/"), []benchmarks.Result{c}})
			}
		}
		if len(all) == 1 {
			all[0].Name = g.Title
			alone = append(alone, all[0])
			continue
		}
		charts = append(charts, split(Chart{g.Title, all}, lines)...)
	}
	return append(charts, together(alone, lines)...)
}

// group sorts cases by their family and then by their path and variant, in the order in which they come.
func group(cases []benchmarks.Result, counts func(benchmarks.Result) bool) (groups []Chart) {
	family, path := map[string]int{}, map[[2]string]int{}
	for _, c := range cases {
		if !counts(c) {
			continue
		}
		f, p := Family(c), cmp.Or(Label(c), Family(c))
		at, ok := family[f]
		if !ok {
			at = len(groups)
			family[f] = at
			groups = append(groups, Chart{Title: f})
		}
		g := &groups[at]
		line, ok := path[[2]string{f, p}]
		if !ok {
			line = len(g.Lines)
			path[[2]string{f, p}] = line
			g.Lines = append(g.Lines, Line{Name: p})
		}
		g.Lines[line].Cases = append(g.Lines[line].Cases, c)
	}
	for _, g := range groups {
		for _, l := range g.Lines {
			slices.SortStableFunc(l.Cases, func(a, b benchmarks.Result) int { return cmp.Compare(Size(a), Size(b)) })
		}
	}
	return groups
}

// split cuts a chart into several with at most so many lines each.
func split(c Chart, lines int) (charts []Chart) {
	n := (len(c.Lines)-1)/lines + 1 // there is at least one
	for i := range n {
		title := c.Title
		if n > 1 {
			title += " (" + strconv.Itoa(i+1) + " of " + strconv.Itoa(n) + ")"
		}
		charts = append(charts, Chart{title, c.Lines[i*lines : i*lines+min(lines, len(c.Lines)-i*lines)]})
	}
	return charts
}

// together makes charts of lines whose names begin with the same word.
func together(lines []Line, most int) (charts []Chart) {
	var order []string
	words := map[string][]Line{}
	for _, l := range lines {
		word, _, _ := strings.Cut(l.Name, "/")
		if words[word] == nil {
			order = append(order, word)
		}
		words[word] = append(words[word], l)
	}
	for _, word := range order {
		charts = append(charts, split(Chart{word, words[word]}, most)...)
	}
	return charts
}
