package benchmarks

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/core"
)

// Selection says which cases [List] lists. The zero Selection lists those of no device but the host.
type Selection struct {
	Registry *core.Registry // nil: a registry without backends
	// Devices are the devices whose cases are listed, nil for all that the registry has and the first one of each API
	// that it has not, whose cases say why.
	Devices []core.DeviceID
	// Pairs are the pairs of devices, from and to, that are measured; nil for every two of Devices and the host.
	Pairs [][2]core.DeviceID
	// Sizes are the sizes in bytes of what is copied; nil for each case's own.
	Sizes []int64
	// Buffer is the size in bytes of what is copied where neither Sizes nor the case says more; 0 for 64 MiB, and 16 MiB
	// where the device computes on the CPU.
	Buffer int64
	// Transfers are chains of copies and copies by a certain device, see [ParseTransfer].
	Transfers []string
	// Dir is where files are made for cases that read some; empty for the system's directory of temporary files.
	Dir string
}

// The sizes of a copy without [Selection.Buffer].
const (
	bigBuffer      = 64 << 20
	softwareBuffer = 16 << 20
)

// apis are the types of devices that dlx has backends for, besides the host.
var apis = []core.DeviceType{core.DeviceOpenCL, core.DeviceVulkan, core.DeviceGL, core.DeviceCUDA, core.DeviceROCM, core.DeviceOneAPI, core.DeviceMetal, core.DeviceWebGPU}

// lister collects cases.
type lister struct {
	Selection
	properties map[core.DeviceID]core.Properties // of the devices that are there
	devices    []core.DeviceID                   // without the host
	pairs      [][2]core.DeviceID                // with the host
	first      map[core.DeviceID]bool            // the devices of the overview
	cases      []Case
}

// List lists the cases that s selects, in the order in which they are reported. Cases that [Case.Extra] marks
// are not part of the overview. List lists devices, but opens none. If only some pairs or transfers are asked
// for, it lists only their cases.
func List(ctx context.Context, s Selection) []Case {
	if s.Registry == nil {
		s.Registry = new(core.Registry)
	}
	l := &lister{Selection: s, properties: map[core.DeviceID]core.Properties{}, first: map[core.DeviceID]bool{}}
	l.findDevices(ctx)
	some := len(s.Pairs)+len(s.Transfers) > 0 && s.Devices == nil
	if !some && (s.Devices == nil || slices.Contains(s.Devices, core.CPU)) {
		l.cases = append(l.cases, hostCases()...)
		l.framesCases(core.CPU, false)
		l.fileCases(core.CPU)
	}
	if !some {
		for _, d := range l.devices {
			l.deviceCases(d)
		}
		l.groupCases()
	}
	if !some || len(s.Pairs) > 0 {
		for _, p := range l.pairs {
			l.pairCases(p[0], p[1])
		}
	}
	l.transferCases(ctx)
	seen := make(map[string]bool, len(l.cases)) // a pair or a chain may be asked for twice
	return slices.DeleteFunc(l.cases, func(c Case) bool {
		twice := seen[c.Name]
		seen[c.Name] = true
		return twice
	})
}

// hostCases are those that need nothing but the host.
func hostCases() []Case {
	overhead := slices.Concat(dlpackCases(), runtimeCases(), shareCases())
	for i := range overhead {
		overhead[i].Kind = Overhead
	}
	copies := slices.Concat(contiguousCases(), stridedCases())
	for i := range copies {
		c := &copies[i]
		c.Kind, c.From, c.To = Bandwidth, Ends{core.CPU}, Ends{core.CPU}
		// Most of them compare one copy with other libraries, in great detail.
		c.Extra = !slices.Contains(overview, c.Name)
	}
	all := append(overhead, copies...)
	for i := range all {
		if c := &all[i]; c.Family == "" {
			c.Family = strings.Join(strings.Split(c.Name, "/")[:2], "/")
		}
	}
	return all
}

// overview are the copies of the host that are measured if no cases are named.
var overview = []string{
	"copy/contiguous/4KiB", "copy/contiguous/1MiB", "copy/contiguous/64MiB",
	"copy/transpose/float32", "copy/nhwc-nchw/uint8", "copy/second-column/float32",
}

// findDevices sets the devices and the pairs.
func (l *lister) findDevices(ctx context.Context) {
	found, _ := l.Registry.Devices(ctx) // those that fail are missing below, and opening them says why
	for _, p := range found {
		l.properties[p.ID] = p
	}
	all := l.Devices
	if all == nil {
		for _, p := range found {
			all = append(all, p.ID)
		}
		for _, t := range apis {
			if !slices.ContainsFunc(all, func(id core.DeviceID) bool { return id.Type == t }) {
				all = append(all, core.DeviceID{Type: t})
			}
		}
	}
	for _, id := range all {
		if id != core.CPU && !slices.Contains(l.devices, id) {
			l.devices = append(l.devices, id)
			l.first[id] = l.Devices != nil || l.properties[id].ID == id && !slices.ContainsFunc(l.devices, func(o core.DeviceID) bool { return o != id && o.Type == id.Type })
		}
	}
	l.first[core.CPU] = true
	if l.pairs = l.Pairs; l.pairs != nil {
		return
	}
	ends := append([]core.DeviceID{core.CPU}, l.devices...)
	for _, from := range ends {
		for _, to := range ends {
			if from != to {
				l.pairs = append(l.pairs, [2]core.DeviceID{from, to})
			}
		}
	}
}

// extra reports whether a case of these devices is not part of the overview: of a device that is missing, or of one
// that is not the first of its API, unless it was asked for.
func (l *lister) extra(ids ...core.DeviceID) bool {
	return slices.ContainsFunc(ids, func(id core.DeviceID) bool { return !l.first[id] })
}

// extraPair is extra for two devices. Of one API, the first two devices count.
func (l *lister) extraPair(from, to core.DeviceID) bool {
	if l.Pairs != nil {
		return false
	}
	if from.Type == to.Type {
		return from.Index > 1 || to.Index > 1
	}
	return l.extra(from, to)
}

// sized is a size, with what it adds to the name of a case.
type sized struct {
	bytes int64
	name  string
}

// buffer is the one size of a case that has no sizes of its own.
func (l *lister) buffer(ids ...core.DeviceID) []sized {
	if len(l.Sizes) > 0 {
		return l.sizes()
	}
	size := int64(bigBuffer)
	if slices.ContainsFunc(ids, func(id core.DeviceID) bool {
		return id == core.CPU || facts.Software(l.properties[id]) || facts.Simulated(l.properties[id])
	}) {
		size = softwareBuffer
	}
	return []sized{{cmp.Or(l.Buffer, size), ""}}
}

// sizes are those of a case that has several of its own.
func (l *lister) sizes(own ...int64) []sized {
	if len(l.Sizes) > 0 {
		own = l.Sizes
	}
	list := make([]sized, len(own))
	for i, n := range own {
		list[i] = sized{n, "/" + binarySize(n)}
	}
	return list
}
