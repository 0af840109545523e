package main

import (
	"io"
	"math"
	"os"
	"strings"

	"golang.org/x/term"
)

// bar draws a value as a bar in a column of so many characters, which a value of most fills. A value above most fills it,
// too. The bar is padded with blanks, so that what follows stays in its column. In blocks it has eight steps in each
// character; otherwise it is made of "#".
func (b barStyle) bar(value, most float64, width int) string {
	if width <= 0 {
		return ""
	}
	part := value / most
	if math.IsNaN(part) || part <= 0 || most <= 0 {
		return strings.Repeat(" ", width)
	}
	eighths := int(math.Round(min(part, 1) * float64(8*width)))
	eighths = max(eighths, 1) // what was measured is seen
	full := eighths / 8
	if !b.blocks {
		full = max(1, (eighths+4)/8)
		return strings.Repeat("#", full) + strings.Repeat(" ", width-full)
	}
	drawn := strings.Repeat("█", full)
	if rest := eighths % 8; rest > 0 {
		drawn += string([]rune("▏▎▍▌▋▊▉")[rest-1])
		full++
	}
	return drawn + strings.Repeat(" ", width-full)
}

// barStyle says how bars are drawn.
type barStyle struct{ blocks bool }

// styleOf returns the style for an output. A terminal with a UTF-8 locale gets blocks, unless NO_COLOR asks for plain
// output; anything else gets ASCII.
func styleOf(w io.Writer, getenv func(string) string) barStyle {
	file, ok := w.(*os.File)
	return barStyle{ok && term.IsTerminal(int(file.Fd())) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && isUTF8(getenv)}
}

// isUTF8 reports whether the locale is UTF-8: that of the first variable that is set counts.
func isUTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := getenv(name); value != "" {
			value = strings.ToLower(value)
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return false
}
