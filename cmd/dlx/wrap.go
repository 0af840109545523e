package main

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// textWidth is how many columns the text of a report may take.
const textWidth = 120

// table is a table that fits textWidth: cells are broken only where it would be wider.
type table struct {
	least []int // to how many characters the cells of a column may be broken; 0 or beyond the list: they are not
	lines [][]string
}

// add adds a row. One with a single cell is a paragraph, and no part of the columns.
func (t *table) add(cells ...string) { t.lines = append(t.lines, cells) }

// write writes the rows.
func (t *table) write(w io.Writer) {
	limits := t.limits()
	for _, cells := range t.lines {
		if len(cells) == 1 {
			paragraph(w, cells[0])
			continue
		}
		wrapped(w, limits, cells...)
	}
}

// limits returns the widths to which columns are broken, the last ones first.
func (t *table) limits() []int {
	var widths []int
	for _, cells := range t.lines {
		if len(cells) == 1 {
			continue
		}
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	const gap = 2
	tooMuch := -gap - textWidth
	for _, n := range widths {
		tooMuch += n + gap
	}
	limits := make([]int, len(widths))
	for i := len(widths) - 1; i >= 0 && tooMuch > 0; i-- {
		if i < len(t.least) && t.least[i] > 0 && widths[i] > t.least[i] {
			limits[i] = max(t.least[i], widths[i]-tooMuch)
			tooMuch -= widths[i] - limits[i]
		}
	}
	return limits
}

// wrapped writes the cells of a table in one row, or in several where a cell is longer than its limit. Columns beyond the limits, and
// those with the limit 0, have none.
func wrapped(w io.Writer, limits []int, cells ...string) {
	lines := make([][]string, len(cells))
	rows := 1
	for i, cell := range cells {
		limit := 0
		if i < len(limits) {
			limit = limits[i]
		}
		lines[i] = wrap(cell, limit)
		rows = max(rows, len(lines[i]))
	}
	for r := range rows {
		line := make([]string, len(cells))
		for i := range cells {
			if r < len(lines[i]) {
				line[i] = lines[i][r]
			}
		}
		row(w, line...)
	}
}

// paragraph writes a text in as many lines as it needs.
func paragraph(w io.Writer, text string) {
	for _, line := range wrap(text, textWidth) {
		row(w, line)
	}
}

// wrap breaks a text into lines of at most so many characters: at a blank, or else after a "/", a "," or a "_", or else anywhere. Later
// lines have the indentation of the first one and two blanks more. The limit 0 is none.
func wrap(text string, limit int) (lines []string) {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))] + "  "
	for limit > 0 && utf8.RuneCountInString(text) > limit && len(indent) < limit/2 {
		runes := []rune(text)
		from := len(runes) - len([]rune(strings.TrimLeft(text, " "))) + 1 // no line is only indentation
		at := limit
		for _, breaks := range []string{" ", "/,", "_"} {
			// A blank may be the one behind the line.
			if i := lastBreak(runes[:limit+1], breaks); i > from && i >= limit/3 {
				at = i
				break
			}
		}
		lines = append(lines, strings.TrimRight(string(runes[:at]), " "))
		text = indent + strings.TrimLeft(string(runes[at:]), " ")
	}
	return append(lines, text)
}

// lastBreak returns how many characters are before the last place where a line may end: before a blank, or after another
// character of breaks.
func lastBreak(line []rune, breaks string) int {
	for i, r := range slices.Backward(line) {
		if strings.ContainsRune(breaks, r) {
			if r != ' ' {
				i++
			}
			if i < len(line) {
				return i
			}
		}
	}
	return 0
}
