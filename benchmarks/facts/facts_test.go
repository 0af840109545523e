package facts

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/inventory"
)

func TestMain(m *testing.M) { coretest.Main(m) }

func TestTheHostOfAFileSystem(t *testing.T) {
	files := fstest.MapFS{}
	for name, content := range map[string]string{
		"etc/os-release":                 "NAME=x\nPRETTY_NAME=\"A System 1\"\n",
		"proc/sys/kernel/osrelease":      "6.1.0\n",
		"proc/cpuinfo":                   "processor : 0\nmodel name\t: A CPU: fast\ncpu MHz\t\t: 2445.5\nflags\t: fpu hypervisor\n\nprocessor : 1\ncpu MHz : 1000\n",
		"proc/self/status":               "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n",
		"proc/meminfo":                   "MemTotal:       1024 kB\n",
		"proc/loadavg":                   "0.50 1.25 2 3/456 789\n",
		"proc/stat":                      "cpu  1 2 3 4 5 6 7 250 9\n",
		"sys/devices/system/node/online": "0\n",
		"sys/class/dmi/id/sys_vendor":    "QEMU\n",
		".dockerenv":                     "",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
		"sys/devices/system/cpu/cpu0/cache/index0/level":       "1\n",
		"sys/devices/system/cpu/cpu0/cache/index0/size":        "32K\n",
		"sys/devices/system/cpu/cpu0/cache/index0/type":        "Data\n",
		"sys/devices/system/cpu/cpu0/cache/index1/level":       "3\n",
		"sys/devices/system/cpu/cpu0/cache/index1/size":        "16M\n",
		"sys/devices/system/cpu/cpu0/cache/index1/type":        "Unified\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	m := host(files)
	want := Machine{
		Platform: m.Platform, System: "A System 1", Kernel: "6.1.0", Virtual: "QEMU", Container: "docker", CPU: "A CPU: fast", CPUs: m.CPUs,
		Affinity: "0-1", NUMANodes: "0", Caches: []Cache{{1, "data", 32 << 10}, {3, "unified", 16 << 20}}, Memory: 1 << 20, Governor: "performance",
		Load: []float64{0.5, 1.25, 2}, Devices: []Device{}, Versions: m.Versions,
	}
	if !reflect.DeepEqual(m, want) || m.Versions["Go"] == "" || m.LargestCache() != 16<<20 {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
	if r := reading(files); !reflect.DeepEqual(r.MHz, []float64{2445.5, 1000}) || r.Steal != 2.5 || r.Time.IsZero() {
		t.Errorf("%+v", r)
	}
	if here := Host(); here.Platform != m.Platform || here.CPUs < 1 || len(here.Load) != len(Load()) {
		t.Errorf("%+v, load %v", here, Load())
	}
	empty := host(fstest.MapFS{})
	if empty.CPU != "" || empty.Load != nil || empty.Memory != 0 || empty.Virtual != "" || empty.LargestCache() != 0 {
		t.Errorf("%+v", empty)
	}
	if r := reading(fstest.MapFS{}); r.MHz != nil || r.Steal != 0 {
		t.Errorf("%+v", r)
	}
}

// module is a structure of SMBIOS that describes a memory module, with two strings.
func module(size, width, speed uint16) []byte {
	s := make([]byte, 0x28)
	s[0], s[1] = 17, byte(len(s))
	binary.LittleEndian.PutUint16(s[0x0A:], width)
	binary.LittleEndian.PutUint16(s[0x0C:], size)
	binary.LittleEndian.PutUint16(s[0x20:], speed)
	return slices.Concat(s, []byte("a\x00b\x00\x00"))
}

func TestThePeakOfMemoryModules(t *testing.T) {
	other := append([]byte{1, 4, 0, 0}, 0, 0) // without strings
	join := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for name, c := range map[string]struct {
		table []byte
		want  float64
	}{
		"two of four sockets": {join(other, module(1024, 64, 3200), module(0, 64, 3200), other, module(1024, 64, 3200), module(0, 0, 0)), 51.2},
		"an unknown speed":    {join(module(1024, 64, 3200), module(1024, 64, 0)), 0},
		"none":                {other, 0},
		"nothing":             {nil, 0},
		"too short":           {module(1024, 64, 3200)[:20], 0},
		"no end of strings":   {module(1024, 64, 3200)[:0x29], 25.6},
	} {
		p := memoryPeak(c.table)
		if (p == nil) != (c.want == 0) || p != nil && math.Abs(p.GBPerSecond-c.want) > 1e-9 {
			t.Errorf("%s: %+v, want %v", name, p, c.want)
		}
	}
}

func FuzzMemoryPeak(f *testing.F) {
	f.Add(module(1024, 64, 3200))
	f.Add([]byte{17, 0, 0, 0})
	f.Fuzz(func(t *testing.T, table []byte) {
		if p := memoryPeak(table); p != nil && !(p.GBPerSecond > 0) {
			t.Errorf("%+v", p)
		}
	})
}

func TestThePeakOfALink(t *testing.T) {
	for link, want := range map[string]float64{
		"16.0 GT/s PCIe x16":                             31.508,
		"2.5 GT/s PCIe x16 (at most 16.0 GT/s PCIe x16)": 31.508,
		"5.0 GT/s PCIe x4":                               2,
		"64.0 GT/s PCIe x16":                             121,
		"":                                               0, "fast": 0, "a b c": 0, "NaN GT/s x16": 0, "16.0 GT/s PCIe x-1": 0, "16.0 GT/s PCIe x": 0,
	} {
		p := busPeak(link)
		if (p == nil) != (want == 0) || p != nil && math.Abs(p.GBPerSecond-want) > 0.001 {
			t.Errorf("%q: %+v, want %v", link, p, want)
		}
	}
}

func TestSoftwareAndSimulatedDevices(t *testing.T) {
	for name, want := range map[string][2]bool{
		"llvmpipe (LLVM 15.0.6, 256 bits)": {true, false},
		"SwiftShader Device (LLVM 16.0.0)": {true, false},
		"dlx simulated GPU":                {false, true},
		"NVIDIA H200":                      {false, false},
	} {
		d := describe(inventory.Device{Properties: core.Properties{Name: name}})
		if got := [2]bool{d.Software, d.Simulated}; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAMachineHasEachBackend(t *testing.T) {
	m := Read(context.Background(), all.New())
	m.End()
	found := map[core.DeviceType]bool{}
	for _, d := range m.Devices {
		found[d.ID.Type] = true
		if (d.Missing == "") == (d.Name == "") {
			t.Errorf("%+v", d)
		}
	}
	for _, name := range append(all.Tags(), "cpu") {
		if want, err := core.ParseDeviceType(name); err != nil || !found[want] {
			t.Errorf("%s is missing, %v", name, err)
		}
	}
	if m.Find(core.CPU) == nil || m.Find(core.DeviceID{Type: core.DeviceMAIA}) != nil || m.After.Time.Before(m.Before.Time) {
		t.Errorf("%+v", m)
	}
	text, err := json.Marshal(m)
	if err != nil || !strings.Contains(string(text), `"missing"`) {
		t.Errorf("%v: %s", err, text)
	}
	var back Machine
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(back); err != nil || string(again) != string(text) {
		t.Errorf("%v\ngot  %s\nwant %s", err, again, text)
	}
}
