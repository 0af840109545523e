package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/internal/strictjson"
)

// interopResults is the file that make bench-interop writes (benchmarks/lab/frameworks/bench.py).
type interopResults struct {
	Schema  int    `json:"schema"`
	Date    string `json:"date"`
	Machine struct {
		System    string `json:"system"`
		Processor string `json:"processor"`
		CPUs      int    `json:"cpus"`
	} `json:"machine"`
	Python   string            `json:"python"`
	Versions map[string]string `json:"versions"`
	Samples  int               `json:"samples"`
	Calls    int               `json:"calls"`
	Load     float64           `json:"load"`
	Groups   []struct {
		Consumer string `json:"consumer"`
		NS       map[string]struct {
			Median float64 `json:"median"`
			P10    float64 `json:"p10"`
			P90    float64 `json:"p90"`
		} `json:"ns"`
		Fastest string  `json:"fastest_foreign"`
		Ratio   float64 `json:"ratio"`
		Target  string  `json:"target"`
		Met     bool    `json:"met"`
	} `json:"groups"`
}

// parseInterop reads the file strictly.
func parseInterop(text []byte) (r interopResults, err error) {
	if err := strictjson.UnmarshalKnown(text, &r); err != nil {
		return r, fmt.Errorf("the results of make bench-interop are not understood: %w", err)
	}
	if r.Schema != 1 || len(r.Groups) == 0 {
		return r, fmt.Errorf("the results of make bench-interop have schema %d and %d groups: schema 1 is understood", r.Schema, len(r.Groups))
	}
	return r, nil
}

// machineName is what the files of results are named after, as make bench-interop does.
func machineName(m Machine) string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	return fmt.Sprintf("%s-%s-%dcpu", runtime.GOOS, arch, m.CPUs)
}

// runInterop measures nothing: make bench-interop has, with samples of dlx and of the others by turns in one process.
func runInterop(_ context.Context, b *bench) []Row {
	machine := thisMachine()
	path := "benchmarks/results/interop-" + machineName(machine) + ".json"
	row := Row{Peer: "DLPack's others", Case: "from_dlpack", Command: "make bench-interop"}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		row.refuse(notInstalled("there is no %s: make bench-interop writes it", path))
		return []Row{row}
	}
	var results interopResults
	if err == nil {
		results, err = parseInterop(text)
	}
	if err != nil {
		row.refuse(err)
		return []Row{row}
	}
	return results.rows()
}

// rows has a line for each producer of tensors beside dlx.
func (r interopResults) rows() []Row {
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, name+" "+r.Versions[name])
	}
	var rows []Row
	for _, g := range r.Groups {
		var own string
		for name := range g.NS {
			if strings.HasPrefix(name, "dlx") {
				own = name
			}
		}
		for _, name := range slices.Sorted(maps.Keys(g.NS)) {
			if name == own {
				continue
			}
			row := Row{
				Peer: name, Version: strings.Join(versions, ", ") + ", Python " + r.Python, Command: "make bench-interop", Case: g.Consumer,
				Notes: fmt.Sprintf("medians of %d samples by turns, of %s on %s with %d CPUs, load %.1f", r.Samples, r.Date, r.Machine.Processor, r.Machine.CPUs, r.Load),
			}
			var dlx []float64
			if own != "" {
				row.DLX = own
				dlx = []float64{g.NS[own].Median}
			}
			row.fill(Nanoseconds, []float64{g.NS[name].Median}, dlx, true)
			row.Samples, row.DLXSamples = nil, nil // there they are
			rows = append(rows, row)
		}
	}
	return rows
}
