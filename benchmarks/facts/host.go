package facts

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/inventory"
)

// Read describes the machine before a run, and the devices of a registry. [Machine.End] adds what is known after it.
func Read(ctx context.Context, registry *core.Registry) Machine {
	root := os.DirFS("/")
	m := host(root)
	m.Before = reading(root)
	for _, backend := range inventory.List(ctx, registry) {
		if len(backend.Devices) == 0 {
			if t, err := core.ParseDeviceType(backend.Name); err == nil {
				reason := backend.Reason
				if backend.Error != "" {
					reason = backend.Error
				}
				m.Devices = append(m.Devices, missing(core.DeviceID{Type: t}, reason))
			}
		}
		for _, d := range backend.Devices {
			m.Devices = append(m.Devices, describe(d))
		}
		if backend.Available && backend.Version != "" {
			m.Versions[backend.Name] = backend.Version
		}
	}
	for i := range m.Devices {
		if d := &m.Devices[i]; d.ID == core.CPU {
			d.Memory = m.MemoryPeak
		}
	}
	readCards(m.Devices, func(d *Device) *DeviceReading { return &d.Before })
	return m
}

// End notes the state of the machine after a run.
func (m *Machine) End() {
	if m == nil {
		return
	}
	m.After = reading(os.DirFS("/"))
	readCards(m.Devices, func(d *Device) *DeviceReading { return &d.After })
}

// Host describes the machine without its devices and their versions, and without the readings before and after a run.
func Host() Machine { return host(os.DirFS("/")) }

// Load returns the averages of the machine's load over the last 1, 5 and 15 minutes, nil where the system does not tell.
func Load() []float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	return loadAverages(string(text))
}

func missing(id core.DeviceID, reason string) Device {
	d := Device{Missing: reason}
	d.ID = id
	return d
}

// host reads what Linux says of itself. On other systems most of it is missing.
func host(root fs.FS) Machine {
	m := Machine{
		Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Devices: []Device{},
		Versions: map[string]string{"Go": runtime.Version()},
	}
	text := func(name string) string {
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(content))
	}
	for line := range strings.Lines(text("etc/os-release")) {
		if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			m.System = strings.Trim(strings.TrimSpace(name), `"`)
		}
	}
	m.Kernel = text("proc/sys/kernel/osrelease")
	info := text("proc/cpuinfo")
	m.CPU = value(info, "model name")
	m.Affinity = value(text("proc/self/status"), "Cpus_allowed_list")
	m.NUMANodes = text("sys/devices/system/node/online")
	m.Governor = text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	if fields := strings.Fields(value(text("proc/meminfo"), "MemTotal")); len(fields) == 2 && fields[1] == "kB" {
		kilobytes, _ := strconv.ParseInt(fields[0], 10, 64) // 0 if it is none
		m.Memory = kilobytes << 10
	}
	m.Load = loadAverages(text("proc/loadavg"))
	if slices.Contains(strings.Fields(value(info, "flags")), "hypervisor") {
		m.Virtual = virtual(text("sys/class/dmi/id/sys_vendor"))
	}
	m.Container = container(root, text)
	m.Caches = caches(text)
	table, _ := fs.ReadFile(root, "sys/firmware/dmi/tables/DMI") // for root only, and not on each machine
	m.MemoryPeak = memoryPeak(table)
	return m
}

// value returns the value of the first line "key : value".
func value(text, key string) string {
	for line := range strings.Lines(text) {
		if k, v, _ := strings.Cut(line, ":"); strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func loadAverages(text string) []float64 {
	load := make([]float64, 3)
	if _, err := fmt.Sscan(text, &load[0], &load[1], &load[2]); err != nil {
		return nil
	}
	return load
}

func virtual(vendor string) string {
	if vendor == "" {
		return "a hypervisor"
	}
	return vendor
}

func container(root fs.FS, text func(string) string) string {
	if _, err := fs.Stat(root, ".dockerenv"); err == nil {
		return "docker"
	}
	if _, err := fs.Stat(root, "run/.containerenv"); err == nil {
		return "podman"
	}
	if strings.Contains(text("proc/1/cgroup"), "kubepods") {
		return "kubernetes"
	}
	return ""
}

// caches lists the caches of the first CPU.
func caches(text func(string) string) []Cache {
	const folder = "sys/devices/system/cpu/cpu0/cache"
	var list []Cache
	for i := 0; ; i++ {
		index := path.Join(folder, "index"+strconv.Itoa(i))
		level, err := strconv.Atoi(text(path.Join(index, "level")))
		if err != nil {
			return list
		}
		size, unit := text(path.Join(index, "size")), int64(1)
		for suffix, bytes := range map[string]int64{"K": 1 << 10, "M": 1 << 20} {
			if number, ok := strings.CutSuffix(size, suffix); ok {
				size, unit = number, bytes
			}
		}
		bytes, _ := strconv.ParseInt(size, 10, 64) // 0 if it is not known
		list = append(list, Cache{Level: level, Kind: strings.ToLower(text(path.Join(index, "type"))), Bytes: bytes * unit})
	}
}

// LargestCache returns the bytes of the largest cache of the host, 0 if none is known.
func (m *Machine) LargestCache() int64 {
	if m == nil {
		return 0
	}
	largest := int64(0)
	for _, c := range m.Caches {
		largest = max(largest, c.Bytes)
	}
	return largest
}

// memoryPeak adds up the memory modules of an SMBIOS table: each carries its configured speed times its width. That is the
// peak of all channels only if each module has a channel of its own, so the real one may be lower.
//
// Source: System Management BIOS reference specification, DSP0134, section 7.18 "Memory Device (Type 17)".
func memoryPeak(table []byte) *Peak {
	const (
		memoryDevice = 17
		widthAt      = 0x0A // bits of data
		sizeAt       = 0x0C // 0: no module in the socket
		speedAt      = 0x20 // configured, in millions of transfers a second
		unknown      = 0xFFFF
	)
	modules, total := 0, 0.0
	for len(table) >= 4 {
		length := int(table[1])
		if length < 4 || length > len(table) {
			break
		}
		if s := table[:length]; s[0] == memoryDevice && length >= speedAt+2 {
			word := func(at int) int { return int(binary.LittleEndian.Uint16(s[at:])) }
			width, speed := word(widthAt), word(speedAt)
			if word(sizeAt) != 0 {
				if speed == 0 || speed == unknown || width == 0 || width == unknown {
					return nil
				}
				modules++
				total += float64(speed) * float64(width) / 8 / 1000
			}
		}
		// The strings of a structure follow it, and end with two zeros.
		rest := table[length:]
		end := 0
		for end+1 < len(rest) && (rest[end] != 0 || rest[end+1] != 0) {
			end++
		}
		table = rest[min(end+2, len(rest)):]
	}
	if modules == 0 {
		return nil
	}
	return &Peak{GBPerSecond: total, Source: fmt.Sprintf("%d memory modules at their configured speed, as SMBIOS lists them", modules)}
}

// reading reads the clocks of the host.
func reading(root fs.FS) Reading {
	r := Reading{Time: time.Now().UTC().Truncate(time.Millisecond)}
	if info, err := fs.ReadFile(root, "proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if k, v, _ := strings.Cut(line, ":"); strings.TrimSpace(k) == "cpu MHz" {
				if mhz, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil {
					r.MHz = append(r.MHz, mhz)
				}
			}
		}
	}
	if stat, err := fs.ReadFile(root, "proc/stat"); err == nil {
		const stealAt, ticksPerSecond = 8, 100 // USER_HZ, which is 100 on all platforms of Go
		if fields := strings.Fields(string(stat)); len(fields) > stealAt && fields[0] == "cpu" {
			if ticks, err := strconv.ParseFloat(fields[stealAt], 64); err == nil {
				r.Steal = ticks / ticksPerSecond
			}
		}
	}
	return r
}
