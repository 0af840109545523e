package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// schema is the version of the JSON documents. It changes when a field is renamed, removed or
// changes its meaning, but not when a field is added.
const schema = "dlx/1"

// document is the JSON document of every command. It may have both a result and an error.
type document struct {
	Schema  string       `json:"schema"`
	Command string       `json:"command"`
	Result  any          `json:"result,omitempty"`
	Error   *errorResult `json:"error,omitempty"`
}

// result is the result of a command. encoding/json writes its fields, unless it is also streamed.
type result interface {
	// writeText writes the result as text. Columns are separated by tabs, which showText
	// replaces by spaces.
	writeText(w io.Writer)
}

// showText writes a result to standard output as text.
func (a *app) showText(r result) error {
	buffered := bufio.NewWriter(a.stdout) // Flush returns the first error of all writes
	table := tabwriter.NewWriter(buffered, 0, 0, 2, ' ', 0)
	r.writeText(escaping{table, textEscape})
	if err := table.Flush(); err != nil {
		return err
	}
	return buffered.Flush()
}

// showDocument writes the result of the command, and err if it failed, to standard
// output as JSON.
func (a *app) showDocument(command string, err error) error {
	d := document{Schema: schema, Command: command, Error: newErrorResult(err, a.working)}
	if a.result != nil {
		d.Result = a.result
	}
	return writeDocument(a.stdout, d)
}

// row writes the cells of one line of a table.
func row(w io.Writer, cells ...string) {
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// formatBytes formats a number of bytes with a decimal unit, such as "812 B", "920.06 kB" or
// "1.50 GB".
func formatBytes(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, unit := float64(n), ""
	for _, unit = range []string{"kB", "MB", "GB", "TB", "PB", "EB"} {
		if value /= 1000; value < 999.995 {
			break
		}
	}
	return strconv.FormatFloat(value, 'f', 2, 64) + " " + unit
}

// formatDuration formats a time, such as "0.13 us", "4.20 ms" or "12.00 s".
func formatDuration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.2f us", float64(d)/float64(time.Microsecond))
	case d < time.Second:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}

// formatRate formats a rate in gigabytes per second, "-" if nothing was copied.
func formatRate(gb float64) string {
	if gb == 0 {
		return "-"
	}
	return strconv.FormatFloat(gb, 'f', 2, 64)
}

// orDash returns s, or "-" if s is empty.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}
