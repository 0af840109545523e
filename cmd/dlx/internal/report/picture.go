package report

import (
	"slices"

	"github.com/dlx-go/dlx/cmd/dlx/internal/page"
	"github.com/dlx-go/dlx/core"
)

// device is a node of the picture of devices.
type device struct {
	id   core.DeviceID
	name string          // of the hardware
	same []core.DeviceID // the same hardware under other APIs
	note string
	tip  string
	// class is that of page.Node.
	class string
}

// kind marks a device that is simulated, or whose driver computes on the CPU.
func (d device) kind(simulated, software bool) device {
	switch {
	case simulated:
		d.class, d.note = "sim", "simulated"
		d.tip += "\nsimulated"
	case software:
		d.note = "on the CPU"
		d.tip += "\nits driver computes on the CPU"
	}
	return d
}

// picture draws devices with the host in the middle. Those with the same hardware are in one box.
func picture(id, title string, devices []device, edges []page.Edge) page.Graph {
	g := page.Graph{ID: id, Title: title, Edges: edges}
	group := map[core.DeviceID]int{}
	slices.SortStableFunc(devices, func(a, b device) int { return compareIDs(a.id, b.id) }) // the host is the first
	for _, d := range devices {
		at := -1
		for _, same := range d.same {
			if other, ok := group[same]; ok {
				at = other
			}
		}
		if at < 0 {
			at = len(g.Groups)
			g.Groups = append(g.Groups, page.Group{Name: short(d.name)})
		}
		group[d.id] = at
		g.Groups[at].Nodes = append(g.Groups[at].Nodes, page.Node{Name: d.id.String(), Note: d.note, Class: d.class, Tip: d.tip})
	}
	return g
}

// short cuts a name to the width of a box.
func short(name string) string {
	const most = 20
	if r := []rune(name); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return name
}
