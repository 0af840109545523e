package page

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis      Axis
		low, high float64
	}{
		{Axis{Log: true}, 1, 1.01}, {Axis{Log: true}, 60, 500}, {Axis{Log: true}, 0.001, 1e6}, {Axis{Log: true}, 1e-3, 1e12}, {Axis{Log: true, Binary: true}, 1024, 1 << 30},
		{Axis{Log: true}, 5, 5}, {Axis{Zero: true}, 0, 0}, {Axis{}, -3, 4}, {Axis{Percent: true}, 0.2, 0.3}, {Axis{Log: true}, 0, 0}, {Axis{Log: true}, math.NaN(), math.Inf(1)},
	} {
		s := newScale(c.axis, []float64{c.low, c.high}, 0, 100)
		ticks := s.ticks()
		if len(ticks) < 2 || len(ticks) > 9 {
			t.Errorf("%+v from %v to %v: %v", c.axis, c.low, c.high, ticks)
		}
		for i, tick := range ticks {
			if at := s.at(tick); at < -1e-6 || at > 100+1e-6 || i > 0 && tick <= ticks[i-1] {
				t.Errorf("%+v from %v to %v: tick %v is at %v", c.axis, c.low, c.high, tick, at)
			}
		}
	}
}

// A sample may be 0, or an interval may have an end below 0. They are drawn at the border.
func TestWhatIsNotOnAnAxisIsAtItsEnd(t *testing.T) {
	s := newScale(Axis{Log: true}, []float64{0, 10, 1000}, 0, 100)
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(-1)} {
		if at := s.at(v); at != 0 {
			t.Errorf("%v is at %v", v, at)
		}
	}
	if at := s.at(math.Inf(1)); at != 100 {
		t.Errorf("infinity is at %v", at)
	}
}

func TestMarksDiffer(t *testing.T) {
	seen := map[string]bool{}
	for i := range Colors {
		seen[mark(i, 50, 50)] = true
	}
	if len(seen) != Colors {
		t.Errorf("%d shapes for %d lines", len(seen), Colors)
	}
}

func TestMatrixColours(t *testing.T) {
	v := View{Log: true}
	if least, most := v.step(1, 1, 100), v.step(100, 1, 100); least != 0 || most != steps-1 {
		t.Errorf("from %d to %d", least, most)
	}
	v.Less = true
	if least, most := v.step(1, 1, 100), v.step(100, 1, 100); least != steps-1 || most != 0 {
		t.Errorf("from %d to %d where less is better", least, most)
	}
	if outlier := (View{Log: true}).step(1e6, 1, 100); outlier != steps-1 {
		t.Errorf("an outlier is %d", outlier)
	}
}

// Boxes of the picture must not lie on each other, however many there are.
func TestGroupsDoNotOverlap(t *testing.T) {
	for others := range 13 {
		for nodes := 1; nodes <= 5; nodes++ {
			g := Graph{Groups: []Group{{Nodes: make([]Node, 1)}}}
			for range others {
				g.Groups = append(g.Groups, Group{Nodes: make([]Node, nodes)})
			}
			boxes, width, height := g.arrange()
			for i, a := range boxes {
				if a.X < 0 || a.Y < 0 || a.X+a.Width > width || a.Y+a.Height > height {
					t.Errorf("%d groups of %d: box %d is outside", others, nodes, i)
				}
				for j, b := range boxes[:i] {
					if a.X < b.X+b.Width && b.X < a.X+a.Width && a.Y < b.Y+b.Height && b.Y < a.Y+a.Height {
						t.Errorf("%d groups of %d: boxes %d and %d overlap", others, nodes, j, i)
					}
				}
			}
		}
	}
}

func TestAPageNamesTheHashesOfItsParts(t *testing.T) {
	var b strings.Builder
	if err := (Page{Title: "a", Sections: []Section{{ID: "x", Title: "without parts"}}}).Write(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, part := range []string{style, script} {
		if !strings.Contains(page, ">"+part+"</") {
			t.Error("a part is not in the page as it was hashed")
		}
	}
	if strings.Contains(page, "without parts") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") {
		t.Error(policy)
	}
}

// A dotted line is the limit of the hardware, and nothing else is dotted: no dash of another line is short.
func TestOnlyALimitIsDotted(t *testing.T) {
	dotted := 0
	for _, rule := range regexp.MustCompile(`([^{}]+)\{[^}]*stroke-dasharray: ([0-9. ]+)`).FindAllStringSubmatch(style, -1) {
		longest := 0.0
		for i, dash := range strings.Fields(rule[2]) {
			if n, err := strconv.ParseFloat(dash, 64); err != nil {
				t.Error(err)
			} else if i%2 == 0 { // every other one is a gap
				longest = max(longest, n)
			}
		}
		if isLimit := strings.TrimSpace(rule[1]) == ".peak"; (longest < 4) != isLimit {
			t.Errorf("%s has the dashes %s", strings.TrimSpace(rule[1]), rule[2])
		}
		if longest < 4 {
			dotted++
		}
	}
	if dotted != 1 {
		t.Errorf("%d rules are dotted", dotted)
	}
}
