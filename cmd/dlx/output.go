package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// schema names the form of every JSON document. It changes when a field is
// renamed, removed or means something else; new fields leave it as it is.
const schema = "dlx/1"

// document is what --json prints, whatever the command. A command that failed may
// have a result, too.
type document struct {
	Schema  string       `json:"schema"`
	Command string       `json:"command"`
	Result  any          `json:"result,omitempty"`
	Error   *errorResult `json:"error,omitempty"`
}

// result is what a command found out. Its fields are its JSON.
type result interface {
	// writeText writes it for people. Columns are separated by tabs and aligned
	// afterwards.
	writeText(w io.Writer)
}

// showText writes a result to standard output for people.
func (a *app) showText(r result) error {
	buffered := bufio.NewWriter(a.stdout) // its error is the first of all writes
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

// writeDocument writes a document as indented JSON.
func writeDocument(w io.Writer, d document) error {
	buffered := bufio.NewWriter(w)
	e := json.NewEncoder(escaping{buffered, jsonEscape})
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return err
	}
	return buffered.Flush()
}

// row writes the cells of one line of a table.
func row(w io.Writer, cells ...string) {
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// formatBytes gives "812 B", "920.06 kB", "1.50 GB": decimal units, as in GB/s.
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

// formatDuration gives "0.13 us", "4.20 ms", "12.00 s".
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

// formatRate gives decimal gigabytes a second, "-" if nothing was copied.
func formatRate(gb float64) string {
	if gb == 0 {
		return "-"
	}
	return strconv.FormatFloat(gb, 'f', 2, 64)
}

// orDash stands for what is not known.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}
