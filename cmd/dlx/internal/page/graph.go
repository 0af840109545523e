package page

import (
	"fmt"
	"math"
	"slices"
)

// Graph is a picture of nodes and of who reaches whom. Nodes of one group are drawn in a box.
type Graph struct {
	ID     string
	Title  string
	Groups []Group
	Edges  []Edge
}

// Group is a set of nodes, such as the names of one device under several APIs. The first group is in the middle.
type Group struct {
	Name  string
	Nodes []Node
}

// Node is a node of a graph.
type Node struct {
	Name  string
	Note  string // in small letters
	Class string // "sim" or "off"
	Tip   string
}

// Edge says how one node reaches another.
type Edge struct {
	From, To  string // names of nodes
	Mechanism string
	Tip       string
}

const nodeWidth, nodeHeight, nodeGap = 122.0, 40.0, 10.0

type box struct{ X, Y, Width, Height float64 }

type nodeView struct {
	Node
	X, Y, Width, Height, TextX, TextY, NoteY string
}

type groupView struct {
	Name                        string
	X, Y, Width, Height, LabelY string
	Middle                      string
}

type edgeView struct {
	Edge
	Class, Path string
}

// arrange places the groups: the first in the middle, the others on an ellipse around it. It returns the boxes of the
// groups, and the size of the picture.
func (g Graph) arrange() (boxes []box, width, height float64) {
	for _, group := range g.Groups {
		boxes = append(boxes, box{0, 0, nodeWidth + 2*nodeGap, float64(len(group.Nodes))*(nodeHeight+nodeGap) + nodeGap + 16})
	}
	others := len(boxes) - 1
	tallest := 0.0
	for _, b := range boxes {
		tallest = max(tallest, b.Height)
	}
	// Neighbours on the ellipse, and the middle, must not touch.
	rx := max(220, float64(others)*36)
	ry := max(tallest*0.55, float64(others)*26)
	if others >= 3 {
		ry = max(ry, tallest+24)
	}
	if others <= 2 {
		ry = 0
	}
	for i := range boxes {
		b := &boxes[i]
		if i > 0 {
			angle := math.Pi + 2*math.Pi*float64(i-1)/float64(others)
			b.X, b.Y = rx*math.Cos(angle), ry*math.Sin(angle)
		}
		b.X, b.Y = b.X-b.Width/2, b.Y-b.Height/2
	}
	left, top := math.Inf(1), math.Inf(1)
	for _, b := range boxes {
		left, top = min(left, b.X), min(top, b.Y)
	}
	for i := range boxes {
		boxes[i].X += 10 - left
		boxes[i].Y += 10 - top
		width, height = max(width, boxes[i].X+boxes[i].Width+10), max(height, boxes[i].Y+boxes[i].Height+10)
	}
	return boxes, width, height
}

func (g Graph) template() (string, any) {
	v := struct {
		Graph
		Width, Height string
		Boxes         []groupView
		NodeViews     []nodeView
		EdgeViews     []edgeView
		Legend        []string
		Label         string
	}{Graph: g}
	if len(g.Groups) == 0 {
		return "graph", v
	}
	boxes, width, height := g.arrange()
	v.Width, v.Height = coordinate(width), coordinate(height)
	place := make(map[string]box)
	for i, group := range g.Groups {
		b := boxes[i]
		v.Boxes = append(v.Boxes, groupView{group.Name, coordinate(b.X), coordinate(b.Y), coordinate(b.Width), coordinate(b.Height),
			coordinate(b.Y + 14), coordinate(b.X + b.Width/2)})
		for j, n := range group.Nodes {
			at := box{b.X + nodeGap, b.Y + 16 + nodeGap/2 + float64(j)*(nodeHeight+nodeGap), nodeWidth, nodeHeight}
			place[n.Name] = at
			textY, noteY := at.Y+nodeHeight/2+5, at.Y+32
			if n.Note != "" {
				textY = at.Y + 18
			}
			v.NodeViews = append(v.NodeViews, nodeView{n, coordinate(at.X), coordinate(at.Y), coordinate(at.Width), coordinate(at.Height),
				coordinate(at.X + at.Width/2), coordinate(textY), coordinate(noteY)})
		}
	}
	for _, e := range g.Edges {
		from, ok := place[e.From]
		to, there := place[e.To]
		if !ok || !there || e.From == e.To {
			continue
		}
		v.EdgeViews = append(v.EdgeViews, edgeView{e, MechanismClass(e.Mechanism), curve(from, to)})
		if !slices.Contains(v.Legend, e.Mechanism) {
			v.Legend = append(v.Legend, e.Mechanism)
		}
	}
	slices.Sort(v.Legend)
	v.Label = fmt.Sprintf("%s: %d nodes, %d connections. The arrow keys move between the nodes.", g.Title, len(v.NodeViews), len(v.EdgeViews))
	return "graph", v
}

// curve joins two nodes by a line that is bent to its right, so that the way back is another line. It ends at the
// border of the node.
func curve(from, to box) string {
	x1, y1 := from.X+from.Width/2, from.Y+from.Height/2
	x2, y2 := to.X+to.Width/2, to.Y+to.Height/2
	length := math.Hypot(x2-x1, y2-y1)
	if length == 0 {
		return ""
	}
	if math.Abs(x2-x1) < 1 { // two nodes of one group: down at the right of the nodes, up at the left
		side := math.Copysign(from.Width/2, y2-y1)
		return fmt.Sprintf("M%s %sQ%s %s %s %s", coordinate(x1+side), coordinate(y1), coordinate(x1+side*1.7), coordinate((y1+y2)/2), coordinate(x2+side), coordinate(y2))
	}
	bend := min(length*0.12, 26)
	mx, my := (x1+x2)/2-(y2-y1)/length*bend, (y1+y2)/2+(x2-x1)/length*bend
	sx, sy := border(from, mx, my)
	ex, ey := border(to, mx, my)
	return fmt.Sprintf("M%s %sQ%s %s %s %s", coordinate(sx), coordinate(sy), coordinate(mx), coordinate(my), coordinate(ex), coordinate(ey))
}

// border is where the line from the middle of a node to a point leaves the node.
func border(b box, x, y float64) (float64, float64) {
	cx, cy := b.X+b.Width/2, b.Y+b.Height/2
	part := 1.0
	if dx := math.Abs(x - cx); dx > 0 {
		part = min(part, (b.Width/2+3)/dx)
	}
	if dy := math.Abs(y - cy); dy > 0 {
		part = min(part, (b.Height/2+3)/dy)
	}
	return cx + (x-cx)*part, cy + (y-cy)*part
}
