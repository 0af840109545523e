//go:build linux

package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// The states of the page cache.
const (
	cold = "cold"
	warm = "warm"
)

// report is the JSON document.
type report struct {
	Schema   string            `json:"schema"`
	Machine  machineResult     `json:"machine"`
	Versions map[string]string `json:"versions"`
	Devices  []string          `json:"devices"`
	Drop     string            `json:"drop"` // how the page cache was emptied
	Files    []fileResult      `json:"files"`
	Header   *headerResult     `json:"header,omitempty"`
	Cases    []*caseResult     `json:"cases"`
	Verdicts []verdict         `json:"verdicts"`
	Refused  []refusal         `json:"refused,omitempty"`
}

type machineResult struct {
	Date       string `json:"date"`
	CPU        string `json:"cpu"`
	CPUs       int    `json:"cpus"`
	Kernel     string `json:"kernel"`
	FileSystem string `json:"file_system"` // of the files: its magic number
	Load       string `json:"load"`        // /proc/loadavg
}

type fileResult struct {
	Name        string `json:"name"`
	Tensors     int    `json:"tensors"`
	TensorBytes int64  `json:"tensor_bytes"`
	Bytes       int64  `json:"bytes"`
}

// caseResult is a loader, a file and a state of the page cache.
type caseResult struct {
	File    string    `json:"file"`
	State   string    `json:"state"`
	Loader  string    `json:"loader"`
	Device  string    `json:"device,omitempty"`
	Seconds []float64 `json:"seconds"` // by round
	Cached  []float64 `json:"cached"`  // the part of the file in the page cache before, by round
	Median  float64   `json:"median_seconds"`
	Rate    float64   `json:"bytes_per_second"` // of the median
	OfRaw   float64   `json:"of_raw"`           // the median time of the fastest raw reading divided by this one
	Error   string    `json:"error,omitempty"`
}

// verdict compares dlx (auto, to the host) with raw reading and with the best loader of others.
type verdict struct {
	File      string  `json:"file"`
	State     string  `json:"state"`
	OfRaw     float64 `json:"of_raw"`        // 0.9 is the aim
	Best      string  `json:"best_other"`    // "" if there is none
	OfBest    float64 `json:"of_best_other"` // its time divided by that of dlx: the median of the rounds; 1 is the aim
	RawMet    bool    `json:"raw_met"`
	OthersMet bool    `json:"others_met"`
}

type refusal struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}

func (r *report) refuse(what string, err error) {
	r.Refused = append(r.Refused, refusal{what, err.Error()})
}

// machine describes this machine.
func machine(folder string) machineResult {
	m := machineResult{Date: time.Now().UTC().Format(time.RFC3339), CPUs: runtime.NumCPU()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	var fs unix.Statfs_t
	if unix.Statfs(folder, &fs) == nil {
		m.FileSystem = fmt.Sprintf("%#x", fs.Type)
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.TrimSpace(string(text))
	}
	return m
}

// summarize computes medians, ratios and verdicts.
func (r *report) summarize() {
	bytes := map[string]int64{}
	for _, f := range r.Files {
		bytes[f.Name] = f.Bytes
	}
	raw := map[string]float64{}
	for _, c := range r.Cases {
		if len(c.Seconds) == 0 {
			continue
		}
		c.Median = median(c.Seconds)
		c.Rate = float64(bytes[c.File]) / c.Median
		if best := raw[c.File+c.State]; strings.HasPrefix(c.Loader, "raw") && (best == 0 || c.Median < best) {
			raw[c.File+c.State] = c.Median
		}
	}
	for _, c := range r.Cases {
		if c.Median > 0 {
			c.OfRaw = raw[c.File+c.State] / c.Median
		}
	}
	for _, f := range r.Files {
		for _, state := range []string{cold, warm} {
			r.judge(f.Name, state)
		}
	}
}

// judge adds the verdict for a file and a state.
func (r *report) judge(file, state string) {
	v := verdict{File: file, State: state}
	var own *caseResult
	var others []*caseResult
	for _, c := range r.Cases {
		switch {
		case c.File != file || c.State != state || c.Median == 0 || strings.HasPrefix(c.Loader, "raw"):
		case c.Loader == "dlx auto" && c.Device == "cpu":
			own, v.OfRaw = c, c.OfRaw
		case !strings.HasPrefix(c.Loader, "dlx"):
			others = append(others, c)
		}
	}
	if own == nil {
		return
	}
	for _, c := range others {
		if of := c.against(own); v.Best == "" || of < v.OfBest {
			v.OfBest, v.Best = of, c.Loader
		}
	}
	v.RawMet, v.OthersMet = v.OfRaw >= 0.9, v.Best == "" || v.OfBest >= 1
	r.Verdicts = append(r.Verdicts, v)
}

// against returns the median of what the times of c are in each round, divided by those of another case.
func (c *caseResult) against(other *caseResult) float64 {
	ratios := make([]float64, min(len(c.Seconds), len(other.Seconds)))
	for i := range ratios {
		ratios[i] = c.Seconds[i] / other.Seconds[i]
	}
	return median(ratios)
}

// median returns the median of a list that is not empty.
func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}

// print prints the results as tables.
func (r *report) print(out io.Writer) {
	buffered := bufio.NewWriter(out)
	defer func() { _ = buffered.Flush() }() // there is nobody to tell
	w := tabwriter.NewWriter(buffered, 0, 0, 2, ' ', 0)
	for _, f := range r.Files {
		for _, state := range []string{cold, warm} {
			fmt.Fprintf(w, "%s: %d tensors of %d bytes, %s\n", f.Name, f.Tensors, f.TensorBytes, state)
			fmt.Fprintln(w, "LOADER\tTO\tMEDIAN s\tMIN s\tGB/s\tOF RAW\tCACHED BEFORE")
			var cases []*caseResult
			for _, c := range r.Cases {
				if c.File == f.Name && c.State == state {
					cases = append(cases, c)
				}
			}
			slices.SortStableFunc(cases, func(a, b *caseResult) int { return cmp.Compare(a.Median, b.Median) })
			for _, c := range cases {
				if len(c.Seconds) == 0 {
					fmt.Fprintf(w, "%s\t%s\tfailed: %s\n", c.Loader, c.Device, c.Error)
					continue
				}
				fmt.Fprintf(w, "%s\t%s\t%.3f\t%.3f\t%.2f\t%.2f\t%.0f %%\n", c.Loader, c.Device, c.Median, slices.Min(c.Seconds), c.Rate/1e9, c.OfRaw, 100*median(c.Cached))
			}
			fmt.Fprintln(w)
		}
	}
	for _, v := range r.Verdicts {
		fmt.Fprintf(w, "%s, %s:\tdlx auto is %.2f of raw reading\t%.2f times as fast as %s\n", v.File, v.State, v.OfRaw, v.OfBest, v.Best)
	}
	r.Header.print(w)
	for _, x := range r.Refused {
		fmt.Fprintf(w, "not measured: %s: %s\n", x.What, x.Reason)
	}
	_ = w.Flush()
}
