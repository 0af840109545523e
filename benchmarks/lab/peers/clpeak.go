package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// clpeakArgs choose the first device of the first platform, which is the one that dlx measures, too.
var clpeakArgs = []string{"-p", "0", "-d", "0", "--transfer-bandwidth", "--enable-xml-dump", "-f"}

// clpeakXML is the file that clpeak 1.1 writes: what it has beyond this is refused.
type clpeakXML struct {
	XMLName   xml.Name `xml:"clpeak"`
	OS        string   `xml:"os,attr"`
	Platforms []struct {
		Name    string `xml:"name,attr"`
		Devices []struct {
			Name      string `xml:"name,attr"`
			Driver    string `xml:"driver_version,attr"`
			Transfers []struct {
				Unit    string `xml:"unit,attr"`
				Figures []struct {
					XMLName xml.Name
					Text    string `xml:",chardata"`
				} `xml:",any"`
			} `xml:"transfer_bandwidth"`
			Others []struct{ XMLName xml.Name } `xml:",any"`
		} `xml:"device"`
	} `xml:"platform"`
}

// clpeakCases are clpeak's figures by its order, and the names of those of dlx.
var clpeakCases = []struct{ name, dlx string }{
	{"enqueuewritebuffer", "opencl host_to_device"},
	{"enqueuereadbuffer", "opencl device_to_host"},
	{"enqueuewritebuffer_nonblocking", "opencl host_to_device"},
	{"enqueuereadbuffer_nonblocking", "opencl device_to_host"},
	{"enqueuemapbuffer", ""},
	{"memcpy_from_mapped_ptr", ""},
	{"enqueueunmap", ""},
	{"memcpy_to_mapped_ptr", ""},
}

// parseClpeak returns the device and the figures, in GB/s by the order of clpeakCases.
func parseClpeak(r io.Reader) (device string, figures []float64, err error) {
	var x clpeakXML
	if err := xml.NewDecoder(r).Decode(&x); err != nil {
		return "", nil, fmt.Errorf("clpeak's file is not understood: %w", err)
	}
	if len(x.Platforms) != 1 || len(x.Platforms[0].Devices) != 1 || len(x.Platforms[0].Devices[0].Transfers) != 1 {
		return "", nil, errors.New("clpeak's file has not one platform with one device with one transfer_bandwidth")
	}
	d := x.Platforms[0].Devices[0]
	if len(d.Others) > 0 {
		return "", nil, fmt.Errorf("clpeak's file has <%s>, which was not asked for", d.Others[0].XMLName.Local)
	}
	t := d.Transfers[0]
	if t.Unit != "gbps" {
		return "", nil, fmt.Errorf("clpeak's unit is %q, and not gbps", t.Unit)
	}
	if len(t.Figures) != len(clpeakCases) {
		return "", nil, fmt.Errorf("clpeak's file has %d figures, and not %d", len(t.Figures), len(clpeakCases))
	}
	for i, f := range t.Figures {
		value, err := strconv.ParseFloat(strings.TrimSpace(f.Text), 64)
		if f.XMLName.Local != clpeakCases[i].name || err != nil || value <= 0 {
			return "", nil, fmt.Errorf("clpeak's file has <%s>%s where <%s> and a number were expected", f.XMLName.Local, f.Text, clpeakCases[i].name)
		}
		figures = append(figures, value)
	}
	return fmt.Sprintf("%s, %s %s", d.Name, x.Platforms[0].Name, d.Driver), figures, nil
}

// clpeakVersion reads what clpeak --version prints. Versions after 1.1 have other options and files.
func clpeakVersion(out string) (string, error) {
	found := regexp.MustCompile(`\Aclpeak version: (1\.1\.[0-9]+)\n?\z`).FindStringSubmatch(out)
	if found == nil {
		return "", notSupported("it says %q: this adapter reads the output of clpeak 1.1", strings.TrimSpace(out))
	}
	return found[1], nil
}

// clinfoLine is a line of clinfo --raw, of one device.
var clinfoLine = regexp.MustCompile(`(?m)^\[[^\]]+/0\]\s+(CL_DEVICE_TYPE|CL_DEVICE_MAX_MEM_ALLOC_SIZE|CL_DEVICE_MAX_WORK_GROUP_SIZE)\s+(\S+)$`)

// clpeakSize returns how many bytes clpeak 1.1 moves at a time: half of the largest allocation, at most 2^27 numbers of
// 4 bytes on a CPU and 2^29 on others, in whole work-groups of at most 256 (runTransferBandwidthTest in its
// src/transfer_bandwidth.cpp). It reads the limits from the output of clinfo --raw.
func clpeakSize(clinfo string) (int64, error) {
	values := map[string]string{}
	for _, found := range clinfoLine.FindAllStringSubmatch(clinfo, -1) {
		if _, twice := values[found[1]]; twice {
			return 0, fmt.Errorf("clinfo has %s twice: choose one platform by OCL_ICD_VENDORS", found[1])
		}
		values[found[1]] = found[2]
	}
	alloc, err := strconv.ParseInt(values["CL_DEVICE_MAX_MEM_ALLOC_SIZE"], 10, 64)
	group, err2 := strconv.ParseInt(values["CL_DEVICE_MAX_WORK_GROUP_SIZE"], 10, 64)
	if err = errors.Join(err, err2); err != nil || group <= 0 || values["CL_DEVICE_TYPE"] == "" {
		return 0, fmt.Errorf("clinfo --raw does not say the limits of a device: %q", values)
	}
	most := int64(1) << 29
	if strings.Contains(values["CL_DEVICE_TYPE"], "CL_DEVICE_TYPE_CPU") {
		most = 1 << 27
	}
	group = min(group, 256)
	return min(alloc/4/2, most) / group * group * 4, nil
}

// runClpeak runs clpeak and dlx by turns: in each round clpeak once, and then some copies of as many bytes.
func runClpeak(ctx context.Context, b *bench) []Row {
	base := Row{Peer: "clpeak", Command: commandLine(nil, "clpeak", append(clpeakArgs, "FILE")...)}
	if limit := os.Getenv("POCL_MEMORY_LIMIT"); limit != "" {
		base.Command = "POCL_MEMORY_LIMIT=" + limit + " " + base.Command
	}
	rows, err := b.clpeakRows(ctx, base)
	if err != nil {
		rows = nil
		for _, c := range clpeakCases {
			row := base
			row.Case = c.name
			row.refuse(err)
			rows = append(rows, row)
		}
	}
	return rows
}

func (b *bench) clpeakRows(ctx context.Context, base Row) ([]Row, error) {
	program, err := find("clpeak", "clpeak")
	if err != nil {
		return nil, err
	}
	clinfo, err := find("clinfo", "clinfo")
	if err != nil {
		return nil, err
	}
	out, err := output(ctx, nil, program, "--version")
	if err != nil {
		return nil, err
	}
	version, err := clpeakVersion(out)
	if err != nil {
		return nil, err
	}
	if out, err = output(ctx, nil, clinfo, "--raw"); err != nil {
		return nil, err
	}
	if base.Size, err = clpeakSize(out); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "dlx-peers-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "clpeak.xml")

	figures := make([][]float64, len(clpeakCases))
	own := map[string][]float64{}
	opencl := core.DeviceID{Type: core.DeviceOpenCL}
	const repetitions = 20 // as many as clpeak does
	rounds := max(1, min(3, b.rounds))
	var device string
	var ownErr error
	for range rounds {
		if _, err := output(ctx, nil, program, append(clpeakArgs, file)...); err != nil {
			return nil, err
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("clpeak wrote no file: %w", err)
		}
		name, values, err := parseClpeak(f)
		_ = f.Close()
		if err != nil {
			return nil, err
		}
		device = name
		for i, v := range values {
			figures[i] = append(figures[i], v)
		}
		for _, c := range []struct {
			name     string
			dst, src place
		}{{"opencl host_to_device", place{device: opencl}, host}, {"opencl device_to_host", host, place{device: opencl}}} {
			if ownErr != nil {
				break
			}
			v, err := b.copySpeed(ctx, opencl, c.dst, c.src, base.Size, repetitions)
			if ownErr = err; err == nil {
				own[c.name] = append(own[c.name], v)
			}
		}
	}
	base.Version = fmt.Sprintf("clpeak %s (%s), on %s", version, debianVersion("clpeak"), device)
	var rows []Row
	for i, c := range clpeakCases {
		row := base
		row.Case, row.DLX = c.name, c.dlx
		if c.dlx == "" {
			row.Notes = "dlx copies, and has no call like it"
		}
		if ownErr != nil {
			row.DLX, row.Notes = "", "dlx was not measured: "+ownErr.Error()
		}
		row.fill(GBPerSecond, figures[i], own[row.DLX], true)
		if strings.Contains(c.name, "map") && !strings.Contains(c.name, "memcpy") {
			row.Notes = "no bytes move where the device has the host's memory; dlx has no call like it"
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// copySpeed returns the GB/s of some copies in a row, after one that is not counted.
func (b *bench) copySpeed(ctx context.Context, by core.DeviceID, dst, src place, size int64, repetitions int) (float64, error) {
	c, err := b.newCopier(ctx, by, dst, src, size)
	if err != nil {
		return 0, err
	}
	defer c.close()
	s := c.series(ctx, "copy", runtime.GOMAXPROCS(0))
	if _, err := s.sample(1); err != nil {
		return 0, err
	}
	d, err := s.sample(repetitions)
	return float64(size) * float64(repetitions) / float64(d), err
}
