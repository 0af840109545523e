// Package plot draws one figure of a benchmark, as SVG or PNG: the bandwidth over size, or bars where nothing was
// measured with several sizes.
package plot

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/figure"
	"github.com/dlx-go/dlx/core"
)

// maxBars is the most bars of a figure: one cannot read more.
const maxBars = 40

// colors can be told apart by people who do not see all colours; lines have dashes and marks in addition.
var colors = []color.Color{
	color.RGBA{0x0b, 0x63, 0xb8, 255}, color.RGBA{0xb3, 0x47, 0x00, 255}, color.RGBA{0x04, 0x77, 0x5a, 255}, color.RGBA{0x8a, 0x2f, 0x96, 255},
	color.RGBA{0x75, 0x62, 0x00, 255}, color.RGBA{0xa3, 0x12, 0x3f, 255}, color.RGBA{0x23, 0x70, 0x7f, 255}, color.RGBA{0x4a, 0x4f, 0x57, 255},
}

var marks = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.PlusGlyph{}, draw.CrossGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.PyramidGlyph{}}

var dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(2)}, {vg.Points(2), vg.Points(2)}, {vg.Points(8), vg.Points(2), vg.Points(2), vg.Points(2)}}

// Format returns the format that the name of a file asks for: "svg" or "png". It returns core.ErrInvalid for others.
func Format(path string) (string, error) {
	switch format := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), "."); format {
	case "svg", "png":
		return format, nil
	}
	return "", core.Errorf(core.ErrInvalid, "plot", "format", "a figure is a file that ends in .svg or .png, not %q", path)
}

// Write draws the report in a format. It returns core.ErrInvalid for another format, or if nothing was measured.
func Write(w io.Writer, format string, r benchmarks.Report) error {
	if format != "svg" && format != "png" {
		return core.Errorf(core.ErrInvalid, "plot", "format", "a figure is svg or png, not %q", format)
	}
	if w == nil {
		return core.Errorf(core.ErrInvalid, "plot", "Write", "the writer is nil")
	}
	p, height, err := draws(r)
	if err != nil {
		return err
	}
	for _, font := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		font.Variant = "Sans"
	}
	canvas, err := draw.NewFormattedCanvas(22*vg.Centimeter, height, format)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	page := draw.New(canvas)
	page.FillPolygon(color.White, page.ClipPolygonXY([]vg.Point{{X: page.Min.X, Y: page.Min.Y}, {X: page.Max.X, Y: page.Min.Y}, {X: page.Max.X, Y: page.Max.Y}, {X: page.Min.X, Y: page.Max.Y}}))
	const margin = 0.35 * vg.Centimeter
	p.Draw(draw.Crop(page, margin, -margin, margin, -margin))
	_, err = canvas.WriteTo(w)
	return err
}

// draws returns the figure and its height.
func draws(r benchmarks.Report) (*plot.Plot, vg.Length, error) {
	charts, points := figure.Bandwidth(r.Cases, math.MaxInt)
	if len(charts) > 0 {
		p, err := lines(charts)
		return p, 13 * vg.Centimeter, err
	}
	var rest []benchmarks.Result
	for _, l := range points {
		rest = append(rest, l.Cases...)
	}
	title, unit := "Bandwidth", "GB/s"
	value := func(c benchmarks.Result) float64 { return c.GBPerSecond }
	if len(rest) == 0 {
		title, unit = "Time of one operation", "ns, median"
		value = func(c benchmarks.Result) float64 { return c.Median }
		for _, c := range r.Cases {
			if c.Status == benchmarks.OK && c.Median > 0 {
				rest = append(rest, c)
			}
		}
	}
	if len(rest) == 0 {
		return nil, 0, core.Errorf(core.ErrInvalid, "plot", "draw", "there is nothing to draw: no case was measured")
	}
	slices.SortStableFunc(rest, func(a, b benchmarks.Result) int { return cmp.Compare(value(b), value(a)) })
	if len(rest) > maxBars {
		title += fmt.Sprintf(", the first %d of %d", maxBars, len(rest))
		rest = rest[:maxBars]
	}
	slices.Reverse(rest) // the axis goes upwards
	p, err := bars(rest, value)
	if err != nil {
		return nil, 0, err
	}
	p.Title.Text, p.X.Label.Text = title, unit
	return p, vg.Length(len(rest))*0.6*vg.Centimeter + 3*vg.Centimeter, nil
}

func bars(cases []benchmarks.Result, value func(benchmarks.Result) float64) (*plot.Plot, error) {
	p := plot.New()
	names := make([]string, len(cases))
	values := make(plotter.Values, len(cases))
	for i, c := range cases {
		names[i], values[i] = mark(c.Name, c), value(c)
	}
	b, err := plotter.NewBarChart(values, 0.4*vg.Centimeter)
	if err != nil {
		return nil, fmt.Errorf("plot: %w", err)
	}
	b.Horizontal, b.Color, b.LineStyle.Width = true, colors[0], 0
	p.Add(plotter.NewGrid(), b)
	p.NominalY(names...)
	p.X.Min, p.X.Max = 0, p.X.Max*1.04
	return p, nil
}

// mark adds to a name what no figure may hide.
func mark(name string, c benchmarks.Result) string {
	if c.Simulated {
		name += " (simulated)"
	}
	if c.Impossible != "" {
		name += " (impossible)"
	}
	return name
}

func lines(charts []figure.Chart) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "Bandwidth over size", "size", "GB/s"
	if len(charts) == 1 {
		p.Title.Text = charts[0].Title
	}
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(sizes), plot.TickerFunc(rates)
	p.Add(plotter.NewGrid())
	p.Legend.Left, p.Legend.Top = true, true
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	n := 0
	for _, c := range charts {
		for _, l := range c.Lines {
			name := mark(l.Name, l.Cases[0])
			if len(charts) > 1 && !strings.HasPrefix(l.Name, c.Title) {
				name = c.Title + ": " + name
			}
			points := make(plotter.XYs, len(l.Cases))
			for i, one := range l.Cases {
				points[i] = plotter.XY{X: float64(figure.Size(one)), Y: one.GBPerSecond}
			}
			line, glyphs, err := plotter.NewLinePoints(points)
			if err != nil {
				return nil, fmt.Errorf("plot: %w", err)
			}
			line.Color, glyphs.Color = colors[n%len(colors)], colors[n%len(colors)]
			line.Width, line.Dashes = vg.Points(1.3), dashes[n/len(colors)%len(dashes)]
			glyphs.Shape = marks[n%len(marks)]
			p.Add(line, glyphs)
			p.Legend.Add(name, line, glyphs)
			n++
		}
	}
	// Room above the lines for their names.
	p.Y.Max *= math.Pow(p.Y.Max/p.Y.Min, min(0.05*float64(n), 0.6)) * 1.2
	return p, nil
}

// sizes are ticks at powers of 2.
func sizes(low, high float64) (ticks []plot.Tick) {
	first, last := math.Ceil(math.Log2(low)), math.Floor(math.Log2(high))
	step := math.Max(1, math.Ceil((last-first)/8))
	for e := first; e <= last; e += step {
		n, unit := math.Exp2(e), "B"
		for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
			if n < 1024 {
				break
			}
			n, unit = n/1024, next
		}
		ticks = append(ticks, plot.Tick{Value: math.Exp2(e), Label: strconv.FormatFloat(n, 'f', -1, 64) + " " + unit})
	}
	return ticks
}

// rates are ticks at 1, 2 and 5 times the powers of 10.
func rates(low, high float64) (ticks []plot.Tick) {
	for e := math.Floor(math.Log10(low)); e <= math.Log10(high); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 6, 64)})
			}
		}
	}
	return ticks
}
