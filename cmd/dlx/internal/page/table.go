package page

import (
	"math"
	"strconv"
)

// Table is a table that can be sorted by each column, and filtered by text and by a group of rows. Rows are in their
// first order until someone sorts them.
type Table struct {
	ID      string
	Caption string
	Columns []Column
	Rows    []Row
	Filter  bool   // show the fields that filter
	Groups  string // what the groups of rows are, such as "family"; "" if there are none
}

// Column is the heading of a column.
type Column struct {
	Name    string
	Numeric bool
	Title   string // what the heading means
}

// Row is a line of a table. Its first cell is its heading.
type Row struct {
	Group string
	Class string // "bad", "warn" or "" for the whole row
	Cells []Cell
}

// Cell is a cell of a table.
type Cell struct {
	Text string
	Note string  // in small letters after the text
	Sort float64 // what the cell is sorted by, if it is not 0; otherwise by the text
	Bar  float64 // from 0 to 1: the length of a bar below the text
	Mark string  // "good", "bad", "warn" or "sim": a badge in a colour
	Span *Span
}

// Span is a point with an interval on an axis from -1 to 1, such as a change with its confidence interval.
type Span struct {
	At, Low, High float64
	Label         string
}

// C is a cell with a text.
func C(text string) Cell { return Cell{Text: text} }

// N is a cell with a text that is sorted by a number.
func N(text string, sort float64) Cell { return Cell{Text: text, Sort: sort} }

// Key returns what the cell is sorted by, "" for its text.
func (c Cell) Key() string {
	if c.Sort == 0 {
		return ""
	}
	return strconv.FormatFloat(c.Sort, 'g', 6, 64)
}

// Width is the length of the bar in percent.
func (c Cell) Width() string { return coordinate(100 * min(max(c.Bar, 0), 1)) }

// X places a value of a span between 0 and 200.
func (s Span) X(v float64) string { return coordinate(100 + 96*min(max(v, -1), 1)) }

// Length is that of the interval.
func (s Span) Length() string {
	return coordinate(96 * (min(max(s.High, -1), 1) - min(max(s.Low, -1), 1)))
}

// GroupNames returns the groups in the order of the rows.
func (t Table) GroupNames() (names []string) {
	seen := make(map[string]bool)
	for _, r := range t.Rows {
		if r.Group != "" && !seen[r.Group] {
			seen[r.Group] = true
			names = append(names, r.Group)
		}
	}
	return names
}

func (t Table) template() (string, any) { return "table", t }

// Bars is a list of named bars, all to one scale.
type Bars struct {
	Title string
	Unit  string
	List  []Bar
}

// Bar is a line of [Bars].
type Bar struct {
	Name  string
	Value float64
	Text  string  // the value as it is shown
	Limit float64 // a mark beyond which no value can be, 0 if there is none
	Tip   string
	Class string // "sim" or "bad"
}

type barView struct {
	Bar
	Width, Mark string
}

func (b Bars) template() (string, any) {
	most := 0.0
	for _, one := range b.List {
		if one.Class != "bad" { // it would make all others tiny
			most = max(most, one.Value)
		}
	}
	if most == 0 {
		most = 1
	}
	for _, one := range b.List { // a limit that would make all bars tiny is not drawn
		if one.Limit < 4*most {
			most = max(most, one.Limit)
		}
	}
	view := struct {
		Bars
		Views []barView
	}{Bars: b}
	for _, one := range b.List {
		v := barView{Bar: one, Width: coordinate(100 * min(one.Value/most, 1))}
		if one.Limit > 0 && one.Limit <= most {
			v.Mark = coordinate(99.5 * one.Limit / most)
		}
		view.Views = append(view.Views, v)
	}
	return "bars", view
}

// coordinate prints a coordinate of a picture with one decimal place, and 0 for what is no number.
func coordinate(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "0"
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}
