package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// nvMiB is how many MiB a copy of nvbandwidth has here, and one of dlx beside it.
const nvMiB = 64

// nvCases are nvbandwidth's cases, and the copies of dlx that do the same.
var nvCases = []struct {
	name     string
	dlx      string
	dst, src place
}{
	{"host_to_device_memcpy_ce", "cuda host_to_device", place{device: card}, pinned},
	{"device_to_host_memcpy_ce", "cuda device_to_host", pinned, place{device: card}},
	{"device_local_copy", "cuda device_local_copy", place{device: card}, place{device: card}},
}

var (
	card   = core.DeviceID{Type: core.DeviceCUDA}
	pinned = place{device: card, kind: core.DeviceCUDAHost}
)

// nvArgs are nvbandwidth's options for a case; its own median is of 3 samples.
func nvArgs(name string) []string { return []string{"-j", "-b", strconv.Itoa(nvMiB), "-t", name} }

// nvResults is what nvbandwidth -j prints, in versions 0.5 to 0.10.
type nvResults struct {
	NVBandwidth struct {
		Version string   `json:"version"`
		Git     string   `json:"git_version"`
		Runtime int      `json:"CUDA Runtime Version"`
		Driver  string   `json:"Driver Version"`
		Devices []string `json:"GPU Device list"`
		Error   string   `json:"error"`
		Cases   []nvCase `json:"testcases"`
	} `json:"nvbandwidth"`
}

type nvCase struct {
	Name        string     `json:"name"`
	Status      string     `json:"status"`
	Error       string     `json:"error"`
	Description string     `json:"bandwidth_description"`
	Matrix      [][]string `json:"bandwidth_matrix"`
}

// nvUnit is the end of a description.
var nvUnit = regexp.MustCompile(`\((GB/s|ns)\)\s*\z`)

// parseNVBandwidth makes rows of the output: one for each cell of a matrix. Later versions add fields, which are let
// pass; a figure that is not understood is an error.
func parseNVBandwidth(text []byte, size int64) ([]Row, error) {
	var r nvResults
	// Warnings may stand before the JSON.
	from := bytes.IndexByte(text, '{')
	if from < 0 {
		return nil, fmt.Errorf("nvbandwidth prints no JSON, but %q", lastLine(string(text)))
	}
	if err := strictjson.Unmarshal(text[from:], &r); err != nil {
		return nil, fmt.Errorf("nvbandwidth's JSON is not understood: %w", err)
	}
	nv := r.NVBandwidth
	switch {
	case nv.Error != "":
		return nil, errors.New("nvbandwidth: " + nv.Error)
	case nv.Version == "" || len(nv.Cases) == 0:
		return nil, errors.New("nvbandwidth's JSON has no version or no testcases")
	}
	version := fmt.Sprintf("nvbandwidth %s, driver %s, CUDA runtime %d, on %s", nv.Version, nv.Driver, nv.Runtime, strings.Join(nv.Devices, "; "))
	var rows []Row
	for _, c := range nv.Cases {
		row := Row{Peer: "nvbandwidth", Version: version, Command: commandLine(nil, "nvbandwidth", nvArgs(c.Name)...), Case: c.Name, Size: size}
		switch c.Status {
		case "Passed":
			cells, err := c.rows(row)
			if err != nil {
				return nil, err
			}
			rows = append(rows, cells...)
		case "Waived", "Not Found":
			row.Status, row.Reason = Unsupported, "nvbandwidth's status is "+c.Status
			rows = append(rows, row)
		case "Error":
			row.Status, row.Reason = Failed, "nvbandwidth: "+c.Error
			rows = append(rows, row)
		default:
			return nil, fmt.Errorf("nvbandwidth's case %s has the status %q, which is not understood", c.Name, c.Status)
		}
	}
	return rows, nil
}

func (c nvCase) rows(base Row) ([]Row, error) {
	unit := nvUnit.FindStringSubmatch(c.Description)
	if unit == nil {
		return nil, fmt.Errorf("nvbandwidth's case %s is described as %q, without GB/s or ns at the end", c.Name, c.Description)
	}
	var rows []Row
	for i, line := range c.Matrix {
		for j, cell := range line {
			if cell == "N/A" {
				continue
			}
			value, err := strconv.ParseFloat(cell, 64)
			if err != nil || value <= 0 {
				return nil, fmt.Errorf("nvbandwidth's case %s has the cell %q, which is no figure", c.Name, cell)
			}
			row := base
			row.Notes = fmt.Sprintf("row %d, column %d of %s", i, j, strings.TrimSpace(c.Description))
			row.fill(Unit(unit[1]), []float64{value}, nil, false)
			if unit[1] == "ns" {
				row.Size = 0
			}
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("nvbandwidth's case %s passed and has no figure", c.Name)
	}
	return rows, nil
}

// runNVBandwidth runs nvbandwidth and dlx by turns on the first card.
func runNVBandwidth(ctx context.Context, b *bench) []Row {
	var rows []Row
	noCard := b.needCard(ctx)
	for _, c := range nvCases {
		base := Row{Peer: "nvbandwidth", Case: c.name, Size: nvMiB << 20, Command: commandLine(nil, "nvbandwidth", nvArgs(c.name)...)}
		got, err := []Row(nil), noCard
		if err == nil {
			got, err = b.nvRows(ctx, c.name, c.dlx, c.dst, c.src)
		}
		if err != nil {
			base.refuse(err)
			got = []Row{base}
		}
		rows = append(rows, got...)
	}
	return rows
}

// needCard says why there is no card to measure.
func (b *bench) needCard(ctx context.Context) error {
	d, err := b.registry.Open(ctx, card)
	if err != nil {
		return notSupported("no card: %v", err)
	}
	defer d.Close()
	if name := d.Properties().Name; strings.HasPrefix(name, "dlx simulated") && !b.small {
		return notSupported("no card: %v is a %s", card, name)
	}
	return nil
}

func (b *bench) nvRows(ctx context.Context, name, dlx string, dst, src place) ([]Row, error) {
	program, err := find("nvbandwidth", "")
	if err != nil {
		return nil, err
	}
	c, err := b.newCopier(ctx, card, dst, src, nvMiB<<20)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if c.stream, err = c.device.NewStream(ctx); err != nil {
		return nil, err
	}
	own := c.series(ctx, dlx, runtime.GOMAXPROCS(0))
	own.calibrate(b.length)
	var rows []Row
	var theirs, ours []float64
	for range max(1, min(3, b.rounds)) {
		out, err := output(ctx, nil, program, nvArgs(name)...)
		if err != nil {
			return nil, err
		}
		if rows, err = parseNVBandwidth([]byte(out), nvMiB<<20); err != nil {
			return nil, err
		}
		if len(rows) == 0 || rows[0].Status != OK {
			return rows, nil
		}
		d, err := own.sample(own.n)
		if err != nil {
			return nil, err
		}
		theirs, ours = append(theirs, rows[0].Value), append(ours, float64(nvMiB<<20)*float64(own.n)/float64(d))
	}
	rows[0].DLX = dlx // the first cell is the first card
	rows[0].fill(GBPerSecond, theirs, ours, true)
	return rows, nil
}
