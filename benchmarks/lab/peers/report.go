package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/dlx-go/dlx/internal/atomicfile"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// schema is the version of the format of Report.
const schema = 1

// Report holds the results of all peers on one machine. Encoding it and decoding that gives an equal Report.
type Report struct {
	Schema   int       `json:"schema"`
	Machine  Machine   `json:"machine"`
	Sections []Section `json:"sections"` // by the order of peers
}

// Section holds the results of one peer, which were measured together.
type Section struct {
	Peer     string    `json:"peer"`
	Title    string    `json:"title"`
	Date     time.Time `json:"date"`
	Revision string    `json:"revision"` // of dlx
	Load     [2]Load   `json:"load"`     // before and after
	Quiet    bool      `json:"quiet"`    // nothing else ran when it began
	Short    bool      `json:"short"`    // few samples: only shows that it works
	Rounds   int       `json:"rounds"`   // that were asked for
	Rows     []Row     `json:"rows"`
}

// Status says how the measurement of a row ended.
type Status string

// The statuses.
const (
	OK          Status = "ok"
	Unsupported Status = "unsupported" // this machine, or the peer, cannot do it
	Skipped     Status = "skipped"     // the peer is not installed, or not measured now
	Failed      Status = "error"
)

// Row is one figure of a peer, with the figure of dlx for the same work where there is one.
type Row struct {
	Peer    string  `json:"peer"`
	Version string  `json:"version,omitempty"`
	Command string  `json:"command,omitempty"` // the exact command line
	Case    string  `json:"case"`
	Size    int64   `json:"size,omitempty"` // bytes that are moved, each counted once
	Threads int     `json:"threads,omitempty"`
	Status  Status  `json:"status"`
	Reason  string  `json:"reason,omitempty"` // why the status is not ok
	Unit    Unit    `json:"unit,omitempty"`
	Value   float64 `json:"value,omitempty"` // the median of the samples

	DLX      string  `json:"dlx,omitempty"`       // what of dlx was measured beside it
	DLXValue float64 `json:"dlx_value,omitempty"` // the median of the samples
	Ratio    float64 `json:"ratio,omitempty"`     // how many times as fast as the peer dlx is
	Turns    bool    `json:"turns,omitempty"`     // whether samples of the two alternated

	Samples    []float64 `json:"samples,omitempty"`
	DLXSamples []float64 `json:"dlx_samples,omitempty"`
	Notes      string    `json:"notes,omitempty"`
}

// Unit is the unit of the values of a row.
type Unit string

// The units. GB are 10^9 bytes.
const (
	GBPerSecond  Unit = "GB/s"
	Nanoseconds  Unit = "ns"
	Microseconds Unit = "us"
)

// faster returns how many times as fast as the peer dlx is.
func (u Unit) faster(dlx, peer float64) float64 {
	if u == GBPerSecond {
		return dlx / peer
	}
	return peer / dlx
}

// fill sets the values of a row that was measured. If both have as many samples, and turns says that those with the same
// index were taken one after the other, the ratio is the median of their ratios.
func (r *Row) fill(unit Unit, samples, dlx []float64, turns bool) {
	r.Status, r.Unit, r.Samples, r.Value = OK, unit, rounded(samples), round(median(samples))
	if len(dlx) == 0 {
		return
	}
	r.DLXSamples, r.DLXValue = rounded(dlx), round(median(dlx))
	r.Turns = turns && len(dlx) == len(samples)
	ratios := []float64{unit.faster(median(dlx), median(samples))}
	if r.Turns {
		ratios = ratios[:0]
		for i := range dlx {
			ratios = append(ratios, unit.faster(dlx[i], samples[i]))
		}
	}
	r.Ratio = round(median(ratios))
}

// refuse gives the row the status of an error.
func (r *Row) refuse(err error) { r.Status, r.Reason = statusOf(err), err.Error() }

// check finds what a report that was read lacks, so that a table never shows it as if it were whole.
func (r *Report) check() error {
	if r.Schema != schema {
		return fmt.Errorf("its schema is %d, and this program reads schema %d: measure again with make bench-peers", r.Schema, schema)
	}
	for _, s := range r.Sections {
		if len(s.Rows) == 0 {
			return fmt.Errorf("the section %q has no rows", s.Peer)
		}
		for _, row := range s.Rows {
			switch {
			case row.Peer == "" || row.Case == "":
				return fmt.Errorf("a row of the section %q has no peer or no case", s.Peer)
			case (row.Status == OK) != (row.Reason == ""):
				return fmt.Errorf("%s, %s: the status is %q and the reason %q", row.Peer, row.Case, row.Status, row.Reason)
			case row.Status == OK && (row.Value <= 0 || row.Unit == "" || row.Version == "" || row.Command == ""):
				return fmt.Errorf("%s, %s: there is no value, unit, version or command", row.Peer, row.Case)
			}
		}
	}
	return nil
}

// readReport reads a report. It returns fs.ErrNotExist if there is no file.
func readReport(path string) (Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Report{}, err
	}
	var r Report
	if err = strictjson.UnmarshalKnown(text, &r); err == nil {
		err = r.check()
	}
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// put replaces the section of a peer, or adds it, by the order of the peers.
func (r *Report) put(s Section) {
	r.Sections = append(slices.DeleteFunc(r.Sections, func(old Section) bool { return old.Peer == s.Peer }), s)
	place := func(s Section) int { return slices.IndexFunc(peers(), func(p peer) bool { return p.name == s.Peer }) }
	slices.SortStableFunc(r.Sections, func(a, b Section) int { return place(a) - place(b) })
}

// write writes the file, so that it is never half a report.
func (r *Report) write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return replace(path, append(text, '\n'))
}

// replace writes a file as a whole, also of a measurement that was stopped.
func replace(path string, text []byte) error {
	return atomicfile.Write(context.Background(), path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// readOrStart reads the report, or starts one of this machine. Results of another machine are not mixed with those of
// this one.
func readOrStart(path string, machine Machine) (Report, error) {
	r, err := readReport(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Report{Schema: schema, Machine: machine}, nil
	}
	if err == nil && r.Machine != machine {
		return Report{Schema: schema, Machine: machine}, nil
	}
	return r, err
}
