package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/core"
)

// nvReport is the document that nvbandwidth --json prints.
//
// Source: json_output.cpp of nvbandwidth 0.8. Fields that only dlx has are at the end of each struct.
type nvReport struct {
	Root struct {
		CUDA      int      `json:"CUDA Runtime Version"`
		Driver    string   `json:"Driver Version"`
		Devices   []string `json:"GPU Device list"`
		Git       string   `json:"git_version"`
		Tests     []nvTest `json:"testcases"`
		Version   string   `json:"version"`
		Warning   string   `json:"warning,omitempty"`
		Generator string   `json:"generator"`
	} `json:"nvbandwidth"`
}

// nvTest is a case of nvbandwidth, which has a value for each device or each pair.
type nvTest struct {
	Name        string     `json:"name"`
	Status      string     `json:"status"`
	Description string     `json:"bandwidth_description,omitempty"`
	Matrix      [][]string `json:"bandwidth_matrix,omitempty"`
	Sum         *float64   `json:"sum,omitempty"`
	Min         *float64   `json:"min,omitempty"`
	Max         *float64   `json:"max,omitempty"`
	Average     *float64   `json:"average,omitempty"`
	Error       string     `json:"error,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	BufferSize  int64      `json:"buffer_size_bytes,omitempty"`
	Memory      string     `json:"host_memory,omitempty"`
	Simulated   bool       `json:"simulated,omitempty"`
}

// notAvailable stands in a matrix where there is no value.
const notAvailable = "N/A"

// NVBandwidth writes the JSON document of nvbandwidth. A family of cases, such as host_to_device_memcpy_ce, is a test case with
// a matrix of GB/s, or of nanoseconds if it measures a latency. If a family was measured with several sizes or kinds of
// host memory, the one that nvbandwidth would measure, pinned and the largest, has the name of the family, and the name of each
// other one ends with its memory and size. The devices of all APIs are rows and columns. Cases that do not name the devices at
// their ends, or that stay on the host, have no place in the schema and are left out, as the warning says.
func NVBandwidth(w io.Writer, p Program, r benchmarks.Report) error {
	if err := checkWriter("NVBandwidth", w); err != nil {
		return err
	}
	var doc nvReport
	root := &doc.Root
	root.Version, root.Git, root.Generator = line("dlx "+p.Version), cmp.Or(line(p.Revision), "unknown"), "dlx bench"
	devices := nvDevices(r)
	root.Devices, root.Tests = []string{}, []nvTest{}
	for i, id := range devices {
		name, sim := id.String(), ""
		if d := r.Host.Find(id); d != nil {
			name = cmp.Or(d.Name, name)
			if d.Simulated {
				sim = " " + simulated
			}
			if id.Type == core.DeviceCUDA && root.Driver == "" {
				root.Driver = line(d.Driver)
			}
			if d.PCI != "" {
				name += " (" + d.PCI + ")"
			}
		}
		root.Devices = append(root.Devices, line(fmt.Sprintf("%d: %s: (%v)%s", i, name, id, sim)))
	}
	root.CUDA = cudaVersion(r.Host.Versions["cuda"])
	groups, out := nvGroups(r.Cases)
	if out > 0 {
		root.Warning = fmt.Sprintf("%d cases of dlx are left out: they have no devices at their ends", out)
	}
	for _, g := range groups {
		root.Tests = append(root.Tests, g.test(devices))
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(doc)
}

// cudaVersion returns a version such as "12.9" as the CUDA runtime counts, 12090; 0 if it is not one.
func cudaVersion(s string) int {
	major, rest, _ := strings.Cut(s, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.ParseUint(major, 10, 16)
	b, minorErr := strconv.ParseUint(minor, 10, 8)
	if err != nil || minorErr != nil {
		return 0
	}
	return int(a)*1000 + int(b)*10
}

// onDevices returns the ends that are not the host, each once.
func onDevices(e benchmarks.Ends) (ids []core.DeviceID) {
	for _, id := range e {
		if id != core.CPU && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// nvDevices returns the devices of the machine, and those that cases name.
func nvDevices(r benchmarks.Report) (ids []core.DeviceID) {
	for _, d := range r.Host.Devices {
		if d.Missing == "" {
			ids = append(ids, d.ID)
		}
	}
	for _, c := range r.Cases {
		if c.Status == benchmarks.OK {
			ids = slices.Concat(ids, c.From, c.To)
		}
	}
	return onDevices(ids)
}

// nvGroup are the cases of one test case.
type nvGroup struct {
	name  string
	cases []*benchmarks.Result
}

// has reports whether the group, which may be nil, has a case with the ends of c.
func (g *nvGroup) has(c *benchmarks.Result) bool {
	return g != nil && slices.ContainsFunc(g.cases, func(o *benchmarks.Result) bool { return slices.Equal(o.From, c.From) && slices.Equal(o.To, c.To) })
}

// nvGroups sorts cases into groups, and counts those without a place.
func nvGroups(cases []benchmarks.Result) (groups []*nvGroup, out int) {
	type key struct {
		family, memory string
		kind           benchmarks.Kind
		size           int64
		streams        int
		simulated      bool
		again          int // of cases with the same ends, which have one place in a matrix
	}
	byKey := make(map[key]*nvGroup)
	best := make(map[string]*nvGroup)
	for i := range cases {
		c := &cases[i]
		if c.Family == "" || len(onDevices(slices.Concat(c.From, c.To))) == 0 {
			out++
			continue
		}
		k := key{c.Family, c.Memory, c.Kind, c.Size, c.Streams, c.Simulated, 0}
		for byKey[k].has(c) {
			k.again++
		}
		g := byKey[k]
		if g == nil {
			g = &nvGroup{}
			byKey[k] = g
			groups = append(groups, g)
		}
		g.cases = append(g.cases, c)
		if b := best[c.Family]; b == nil || before(c, b.cases[0]) {
			best[c.Family] = g
		}
	}
	names := make(map[string]int)
	for _, g := range groups {
		c := g.cases[0]
		g.name = c.Family
		if best[c.Family] != g {
			for _, part := range []string{c.Memory, count(c.Size), string(c.Kind)} {
				if part != "" {
					g.name += "/" + part
				}
			}
			if c.Streams > 0 {
				g.name += "/" + strconv.Itoa(c.Streams) + "_streams"
			}
		}
		if c.Simulated {
			g.name += " " + simulated
		}
		g.name = line(g.name)
		if names[g.name]++; names[g.name] > 1 {
			g.name += "#" + strconv.Itoa(names[g.name])
		}
	}
	return groups, out
}

// before reports whether nvbandwidth would rather measure a than b.
func before(a, b *benchmarks.Result) bool {
	rank := func(c *benchmarks.Result) []int64 {
		r := []int64{1, 1, 1, -c.Size}
		for i, good := range []bool{!c.Simulated, measured(c), c.Memory == "pinned"} {
			if good {
				r[i] = 0
			}
		}
		return r
	}
	return slices.Compare(rank(a), rank(b)) < 0
}

// test makes the test case of a group.
func (g *nvGroup) test(devices []core.DeviceID) nvTest {
	c := g.cases[0]
	t := nvTest{Name: g.name, Status: "Waived", BufferSize: c.Size, Memory: line(c.Memory), Simulated: c.Simulated}
	rows, columns := 1, len(devices)
	reads := strings.Contains(c.Family, "_read_")
	for _, c := range g.cases {
		if from, to := onDevices(c.From), onDevices(c.To); len(from) == 1 && len(to) == 1 && from[0] != to[0] {
			rows = len(devices)
		}
		if c.Status == benchmarks.Failed {
			t.Error = line(c.Reason)
		} else if c.Status != benchmarks.OK && t.Reason == "" {
			t.Reason = line(c.Reason)
		}
	}
	matrix := make([][]string, rows)
	for i := range matrix {
		matrix[i] = slices.Repeat([]string{notAvailable}, columns)
	}
	var values []float64
	for _, c := range g.cases {
		value := c.GBPerSecond
		if c.Kind != benchmarks.Bandwidth {
			value = c.Median
		}
		row, column := place(c, devices, reads, rows > 1)
		if !measured(c) || !known(value) || row < 0 || column < 0 {
			continue
		}
		matrix[row][column] = strconv.FormatFloat(value, 'g', 6, 64)
		values = append(values, value)
	}
	if len(values) > 0 {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		least, most, average := slices.Min(values), slices.Max(values), sum/float64(len(values))
		t.Status, t.Matrix, t.Reason = "Passed", matrix, ""
		t.Sum, t.Min, t.Max, t.Average = &sum, &least, &most, &average
		t.Description = describe(c, rows > 1, reads)
	}
	if t.Error != "" {
		t.Status = "Error"
	}
	return t
}

// place returns the row and the column of a case, -1 for one that is not in the matrix. Where the matrix is of pairs, the
// row of a copy that is read from another device is the device that reads, as in nvbandwidth.
func place(c *benchmarks.Result, devices []core.DeviceID, reads, pairs bool) (row, column int) {
	from, to := onDevices(c.From), onDevices(c.To)
	if pairs {
		if len(from) == 0 || len(to) == 0 {
			return -1, -1
		}
		row, column = slices.Index(devices, from[0]), slices.Index(devices, to[0])
		if reads {
			row, column = column, row
		}
		return row, column
	}
	one := from // of several devices and one, the one
	if len(from) == 0 || len(to) == 1 {
		one = to
	}
	return 0, slices.Index(devices, one[0])
}

// describe says what rows and columns are.
func describe(c *benchmarks.Result, pairs, reads bool) string {
	from, to := onDevices(c.From), onDevices(c.To)
	row, arrow := "CPU", "<->"
	switch {
	case pairs && reads:
		row, arrow = "GPU", "<-"
	case pairs:
		row, arrow = "GPU", "->"
	case strings.Contains(c.Family, "bidirectional"):
	case len(from) == 0:
		arrow = "->"
	case len(to) == 0:
		arrow = "<-"
	case len(from) > 1:
		row, arrow = "all GPUs", "->"
	case len(to) > 1:
		row, arrow = "all GPUs", "<-"
	default:
		row = "GPU"
	}
	what, unit := "bandwidth", "GB/s"
	if c.Kind != benchmarks.Bandwidth {
		what, unit = "latency", "ns"
	}
	text := fmt.Sprintf("%s %s(row) %s GPU(column) %s (%s)", c.Family, row, arrow, what, unit)
	if c.Simulated {
		text += " " + simulated
	}
	return line(text)
}
