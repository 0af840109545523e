package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Colors is the number of colours and marks that differ. A chart has at most so many lines.
const Colors = 8

// Lines is a chart of lines over two axes.
type Lines struct {
	Title  string
	X, Y   Axis
	Series []Line // at most Colors
}

// Axis is an axis of a chart.
type Axis struct {
	Name    string
	Log     bool
	Binary  bool                 // the ticks of a logarithmic axis are powers of 2, not of 10
	Zero    bool                 // a linear axis begins at 0
	Percent bool                 // a linear axis goes from 0 to 1
	Format  func(float64) string // of a tick
}

// Line is a line of a chart.
type Line struct {
	Name   string
	Points []Point
	Steps  bool    // horizontal, then vertical
	Limit  float64 // a horizontal line that no point can be above, 0 if there is none
	Class  string  // "sim" for a simulated device
}

// Point is a point of a line. Low and High are an interval of Y, both 0 if it is not known.
type Point struct {
	X, Y      float64
	Low, High float64
	Tip       string // "" if the point is a corner of the line only
}

// The picture of a chart, in units of SVG. Letters become larger on a phone: there is room for that.
const (
	chartWidth, chartHeight = 520.0, 330.0
	chartLeft, chartRight   = 66.0, 14.0
	chartTop, chartBottom   = 14.0, 52.0
)

// scale maps values to coordinates.
type scale struct {
	axis       Axis
	low, high  float64 // of the values, as logarithms if the axis is logarithmic
	start, end float64 // coordinates
}

func newScale(a Axis, values []float64, start, end float64) scale {
	s := scale{axis: a, low: math.Inf(1), high: math.Inf(-1), start: start, end: end}
	for _, v := range values {
		if v = s.value(v); !math.IsNaN(v) && !math.IsInf(v, 0) {
			s.low, s.high = min(s.low, v), max(s.high, v)
		}
	}
	switch {
	case a.Percent:
		s.low, s.high = 0, 1
	case s.low > s.high:
		s.low, s.high = 0, 1
	case a.Log:
		room := max((s.high-s.low)*0.04, 0.03)
		s.low, s.high = s.low-room, s.high+room
	case a.Zero:
		s.low, s.high = 0, max(s.high*1.05, 1e-9)
	default:
		room := max((s.high-s.low)*0.05, 1e-9)
		s.low, s.high = s.low-room, s.high+room
	}
	return s
}

func (s scale) value(v float64) float64 {
	if s.axis.Log {
		return math.Log10(v)
	}
	return v
}

// at returns the coordinate of a value. What is not on the axis, such as 0 on a logarithmic one, is at its end.
func (s scale) at(v float64) float64 {
	part := (s.value(v) - s.low) / (s.high - s.low)
	if math.IsNaN(part) {
		part = 0
	}
	return s.start + min(max(part, 0), 1)*(s.end-s.start)
}

// inside reports whether a value is on the axis.
func (s scale) inside(v float64) bool {
	at := s.value(v)
	return at >= s.low && at <= s.high // false if it is no number
}

// ticks returns about five to eight values with a label.
func (s scale) ticks() (list []float64) {
	switch {
	case s.axis.Log && s.axis.Binary:
		first, last := math.Ceil(s.low/math.Log10(2)-1e-9), math.Floor(s.high/math.Log10(2)+1e-9)
		step := math.Max(1, math.Ceil((last-first)/6))
		for e := first; e <= last; e += step {
			list = append(list, math.Exp2(e))
		}
	case s.axis.Log:
		// The finest steps that leave room for the labels.
		every := math.Max(1, math.Ceil((s.high-s.low)/6))
		for _, steps := range [][]float64{{1, 1.5, 2, 3, 4, 5, 6, 8}, {1, 2, 3, 5}, {1, 2, 5}, {1, 3}, {1}} {
			list = nil
			for e := math.Floor(s.low); e <= s.high; e += every {
				for _, m := range steps {
					if v := m * math.Pow(10, e); s.inside(v) {
						list = append(list, v)
					}
				}
			}
			if len(list) <= 6 && every == 1 || len(steps) == 1 {
				break
			}
		}
		if len(list) < 2 { // the axis is shorter than the steps
			list = linear(math.Pow(10, s.low), math.Pow(10, s.high))
		}
	default:
		list = linear(s.low, s.high)
	}
	return list
}

// linear returns round values between two.
func linear(low, high float64) (list []float64) {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, m := range []float64{5, 2} {
		if (high-low)/(step*m) >= 4 {
			step *= m
			break
		}
	}
	for i := math.Ceil(low / step); i*step <= high*(1+1e-12) && len(list) < 20; i++ {
		list = append(list, i*step)
	}
	return list
}

type tickView struct{ At, Label string }

type lineView struct {
	Name, Class, Path, Band string
	Index                   int
	Limit, LimitText        string
	Marks                   []markView
}

type markView struct{ Path, Tip string }

type linesView struct {
	Lines
	Width, Height            string
	Left, Right, Top, Bottom string
	XTicks, YTicks           []tickView
	XMiddle, YMiddle         string
	Views                    []lineView
	Label                    string
}

func (l Lines) template() (string, any) {
	var xs, ys []float64
	for _, s := range l.Series {
		for _, p := range s.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
			if p.High > 0 {
				ys = append(ys, p.Low, p.High)
			}
		}
		if s.Limit > 0 {
			ys = append(ys, s.Limit)
		}
	}
	x := newScale(l.X, xs, chartLeft, chartWidth-chartRight)
	y := newScale(l.Y, ys, chartHeight-chartBottom, chartTop)
	v := linesView{Lines: l, Width: coordinate(chartWidth), Height: coordinate(chartHeight),
		Left: coordinate(chartLeft), Right: coordinate(chartWidth - chartRight), Top: coordinate(chartTop), Bottom: coordinate(chartHeight - chartBottom),
		XMiddle: coordinate((x.start + x.end) / 2), YMiddle: coordinate((y.start + y.end) / 2)}
	for _, t := range x.ticks() {
		v.XTicks = append(v.XTicks, tickView{coordinate(x.at(t)), l.X.label(t)})
	}
	for _, t := range y.ticks() {
		v.YTicks = append(v.YTicks, tickView{coordinate(y.at(t)), l.Y.label(t)})
	}
	for i, s := range l.Series {
		v.Views = append(v.Views, s.view(i%Colors, x, y, l.Y))
	}
	v.Label = fmt.Sprintf("%s: %s over %s, %d lines. The arrow keys move between the points.", l.Title, l.Y.Name, l.X.Name, len(l.Series))
	return "lines", v
}

func (a Axis) label(v float64) string {
	if a.Format != nil {
		return a.Format(v)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func (s Line) view(index int, x, y scale, yAxis Axis) lineView {
	v := lineView{Name: s.Name, Class: s.Class, Index: index}
	var path, upper strings.Builder
	var lower []string
	band := true
	for i, p := range s.Points {
		px, py := coordinate(x.at(p.X)), coordinate(y.at(p.Y))
		switch {
		case i == 0:
			fmt.Fprintf(&path, "M%s %s", px, py)
		case s.Steps:
			fmt.Fprintf(&path, "H%sV%s", px, py)
		default:
			fmt.Fprintf(&path, "L%s %s", px, py)
		}
		if p.High <= 0 || p.Low <= 0 {
			band = false
		} else {
			fmt.Fprintf(&upper, "%s %s ", px, coordinate(y.at(p.High)))
			lower = append(lower, px+" "+coordinate(y.at(p.Low)))
		}
		if p.Tip != "" {
			v.Marks = append(v.Marks, markView{mark(index, x.at(p.X), y.at(p.Y)), p.Tip})
		}
	}
	v.Path = path.String()
	if band && len(s.Points) > 1 {
		v.Band = "M" + upper.String()
		for i := len(lower) - 1; i >= 0; i-- {
			v.Band += lower[i] + " "
		}
		v.Band += "Z"
	}
	if s.Limit > 0 {
		v.Limit, v.LimitText = coordinate(y.at(s.Limit)), "at most "+yAxis.label(s.Limit)
	}
	return v
}

// mark returns the outline of a point: each line has a shape of its own, so that colours need not be told apart.
func mark(index int, x, y float64) string {
	var corners [][2]float64
	switch index % Colors {
	case 0: // a circle
		return fmt.Sprintf("M%s %sa4 4 0 1 0 8 0a4 4 0 1 0-8 0Z", coordinate(x-4), coordinate(y))
	case 1:
		corners = [][2]float64{{-3.5, -3.5}, {3.5, -3.5}, {3.5, 3.5}, {-3.5, 3.5}}
	case 2:
		corners = [][2]float64{{0, -4.5}, {4.5, 3.5}, {-4.5, 3.5}}
	case 3:
		corners = [][2]float64{{0, -5}, {5, 0}, {0, 5}, {-5, 0}}
	case 4:
		corners = [][2]float64{{0, 4.5}, {4.5, -3.5}, {-4.5, -3.5}}
	case 5:
		corners = [][2]float64{{-1.5, -4.5}, {1.5, -4.5}, {1.5, -1.5}, {4.5, -1.5}, {4.5, 1.5}, {1.5, 1.5}, {1.5, 4.5}, {-1.5, 4.5}, {-1.5, 1.5}, {-4.5, 1.5}, {-4.5, -1.5}, {-1.5, -1.5}}
	case 6:
		corners = [][2]float64{{-4.5, -2}, {4.5, -2}, {4.5, 2}, {-4.5, 2}}
	case 7:
		corners = [][2]float64{{-2, -4.5}, {2, -4.5}, {4.5, 0}, {2, 4.5}, {-2, 4.5}, {-4.5, 0}}
	}
	var b strings.Builder
	for i, c := range corners {
		b.WriteByte("ML"[min(i, 1)])
		fmt.Fprintf(&b, "%s %s", coordinate(x+c[0]), coordinate(y+c[1]))
	}
	return b.String() + "Z"
}
