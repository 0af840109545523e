package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
	"github.com/dlx-go/dlx/stream"
)

// Coverage counts what was mixed with what.
type Coverage struct {
	mu    sync.Mutex
	steps int64
	short int64 // calls that failed since descriptors or memory were short
	count map[combination]int64
}

// combination is one step's kind of memory, operation, device and option.
type combination struct{ Kind, Op, Device, Option string }

// NewCoverage returns an empty count.
func NewCoverage() *Coverage { return &Coverage{count: make(map[combination]int64)} }

func (c *Coverage) add(k Kind, op, device, option string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[combination{k.String(), op, device, option}]++
}

func (c *Coverage) step() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps++
}

func (c *Coverage) shortage() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.short++
}

// Steps is how many steps did something.
func (c *Coverage) Steps() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steps
}

// axes are what the tables are made of.
var axes = []struct {
	name string
	of   func(combination) string
}{
	{"memory", func(c combination) string { return c.Kind }},
	{"operation", func(c combination) string { return c.Op }},
	{"device", func(c combination) string { return c.Device }},
	{"option", func(c combination) string { return c.Option }},
}

// pairsShown are the axes that are crossed, each pair in a table.
var pairsShown = [][2]int{{1, 0}, {1, 2}, {0, 2}, {3, 1}, {3, 2}, {3, 0}}

// Tables prints how often each pair was exercised.
func (c *Coverage) Tables() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, pair := range pairsShown {
		rows, columns := axes[pair[0]], axes[pair[1]]
		count := make(map[[2]string]int64)
		names := [2]map[string]bool{{}, {}}
		for k, n := range c.count {
			row, column := rows.of(k), columns.of(k)
			count[[2]string{row, column}] += n
			names[0][row], names[1][column] = true, true
		}
		columnNames := slices.Sorted(maps.Keys(names[1]))
		fmt.Fprintf(&b, "\n%s by %s\n", rows.name, columns.name)
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(w, "\t%s\t\n", strings.Join(columnNames, "\t"))
		for _, row := range slices.Sorted(maps.Keys(names[0])) {
			fmt.Fprintf(w, "%s\t", row)
			for _, column := range columnNames {
				fmt.Fprintf(w, "%d\t", count[[2]string{row, column}])
			}
			fmt.Fprintln(w)
		}
		_ = w.Flush()
	}
	return b.String()
}

// Missing lists the rows that a run of these devices must not leave empty and did.
func (c *Coverage) Missing(w *World) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var missing []string
	for _, row := range wanted(w) {
		found := false
		for k := range c.count {
			found = found || row.matches(k)
		}
		if !found {
			missing = append(missing, row.String())
		}
	}
	return missing
}

// asked are options that not every pair can grant. What shares memory and what copies
// must be granted to each kind and each device.
var asked = map[string]bool{"only_alias": true, "only_map": true, "only_peer": true, "only_direct": true, "only_staged": true, "deadline": true}

// matches reports whether a combination belongs to a row, whose empty fields say nothing.
func (row combination) matches(c combination) bool {
	return (row.Kind == "" || row.Kind == c.Kind) && (row.Op == "" || row.Op == c.Op) &&
		(row.Device == "" || row.Device == c.Device) && (row.Option == "" || row.Option == c.Option || asked[row.Option] && row.Option+refused == c.Option)
}

// String names the fields that count.
func (row combination) String() string {
	return strings.Join(slices.DeleteFunc([]string{row.Kind, row.Op, row.Device, row.Option}, func(s string) bool { return s == "" }), " x ")
}

// merge adds the counts of another process.
func (c *Coverage) merge(steps int64, count map[combination]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps += steps
	for k, n := range count {
		c.count[k] += n
	}
}

// wanted lists the rows that a run over the devices of a world fills.
func wanted(w *World) []combination {
	var rows []combination
	names := make(map[string]bool)
	pinned, managed, c, drawn := false, false, parts.HasC, false
	for _, d := range w.Devices {
		names[d.Name] = true
		pinned, managed = pinned || d.pinnedType() != 0, managed || d.managed()
		if d.ID().Type == core.DeviceGL && parts.HasRenderer {
			drawn = true
			for _, op := range []string{"make", "to", "copy", "copied", "fill", "new_stream", "close_stream", "synchronize", "record", "wait_event", "open_device", "close_device"} {
				rows = append(rows, combination{Op: op, Device: d.Name + rendererName})
			}
		}
	}
	for k := range kinds {
		switch {
		case k == MemFD && !parts.HasMemFD, k == Drawn && !drawn, k == Pinned && !pinned, k == Managed && !managed, (k == Malloc || k == Foreign || k == ForeignLegacy) && !c:
			continue
		}
		ops := []string{"make", "view", "to", "copy", "copied", "compare", "close", "fill", "host_write", "kernel", "reader", "handoff"}
		switch k {
		case Drawn:
			ops = []string{"make", "view", "to", "copy", "copied", "compare", "close", "fill", "handoff"}
		case MemFD:
			ops = append(ops, "alias")
		case FileReadOnly:
			ops = []string{"make", "view", "to", "copied", "compare", "close", "reader", "handoff"}
		}
		if c {
			ops = append(ops, "reexport")
		}
		for _, op := range ops {
			rows = append(rows, combination{Kind: k.String(), Op: op})
		}
		for name := range names {
			rows = append(rows, combination{Kind: k.String(), Op: "to", Device: name})
		}
		for _, option := range []string{"if_needed", "never", "always", "plan", "deadline", "only_alias", "only_map", "only_direct", "only_staged"} {
			rows = append(rows, combination{Kind: k.String(), Op: "to", Option: option})
		}
	}
	for name := range names {
		for _, op := range []string{"make", "to", "copy", "copied", "fill", "new_stream", "close_stream", "synchronize", "record", "wait_event", "open_device", "close_device"} {
			rows = append(rows, combination{Op: op, Device: name})
		}
		for _, option := range []string{"if_needed", "never", "always", "plan", "deadline", "stream", "no_stream", "overlap", "same"} {
			rows = append(rows, combination{Device: name, Option: option})
		}
	}
	for _, option := range []string{"told", "untold", "import", "open"} {
		if parts.HasMemFD {
			rows = append(rows, combination{Kind: MemFD.String(), Op: "alias", Option: option})
		}
	}
	if parts.HasPeers {
		rows = append(rows, combination{Op: "over", Option: "shared"}, combination{Op: "over", Option: "copied"})
		for name := range names {
			rows = append(rows, combination{Op: "over", Device: name})
		}
	}
	return append(rows,
		combination{Op: "link"}, combination{Op: "close_link"}, combination{Op: "link_handoff", Option: stream.SemaphoreWait.String()},
		combination{Op: "give", Option: "pending"}, combination{Op: "receive"}, combination{Op: "crowd"})
}
