package page

import "math"

// Matrix is a table of pairs, such as devices with devices. It has several views, of which one is shown at a time.
type Matrix struct {
	ID      string
	Caption string
	Corner  string // what rows and columns are: "from \\ to"
	Rows    []string
	Columns []string
	Views   []View
}

// View gives each pair a value.
type View struct {
	Name  string
	Note  string   // how to read it
	Cells [][]Pair // by rows, then by columns
	// Log colours values by their logarithm. Without it, and without values, Class has the colour.
	Log  bool
	Less bool // less is better: the colours are reversed
}

// Pair is a cell of a matrix.
type Pair struct {
	Text  string
	Value float64 // what the colour shows; 0 if there is none
	// Outlier says that the value does not count for the scale of the colours.
	Outlier bool
	Class   string // the mechanism, for a view without values
	Tip     string
}

// steps is the number of colours of a view.
const steps = 7

// step returns the colour of a value: 0 for the least.
func (v View) step(value, least, most float64) int {
	if v.Log {
		value, least, most = math.Log(value), math.Log(least), math.Log(most)
	}
	part := 1.0
	if most > least { // false, too, if all values are outliers
		part = (value - least) / (most - least)
	}
	if v.Less {
		part = 1 - part
	}
	return min(max(int(part*steps), 0), steps-1)
}

type pairView struct {
	Pair
	Step string // "q0" to "q6", a mechanism's class, or ""
}

type viewView struct {
	View
	Index int
	Lines []struct {
		Name  string
		Cells []pairView
	}
}

func (m Matrix) template() (string, any) {
	out := struct {
		Matrix
		Tables []viewView
	}{Matrix: m}
	for i, v := range m.Views {
		least, most := math.Inf(1), 0.0
		for _, row := range v.Cells {
			for _, p := range row {
				if p.Value > 0 && !p.Outlier {
					least, most = min(least, p.Value), max(most, p.Value)
				}
			}
		}
		view := viewView{View: v, Index: i}
		for j, row := range v.Cells {
			line := struct {
				Name  string
				Cells []pairView
			}{Name: m.Rows[j]}
			for _, p := range row {
				one := pairView{Pair: p, Step: p.Class}
				if p.Value > 0 {
					one.Step = "q" + string(rune('0'+v.step(p.Value, least, most)))
				}
				line.Cells = append(line.Cells, one)
			}
			view.Lines = append(view.Lines, line)
		}
		out.Tables = append(out.Tables, view)
	}
	return "matrix", out
}

// MechanismClass returns the class of a mechanism's colour. What is none of the five has a colour of its own.
func MechanismClass(name string) string {
	switch name {
	case "alias", "map", "peer", "direct", "staged":
		return "m-" + name
	case "", "-", "none":
		return "m-none"
	}
	return "m-other"
}
