package benchmarks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestSelectTakesNamesBeginningsAndGlobs(t *testing.T) {
	cases := []Case{{Name: "a/1"}, {Name: "a/2"}, {Name: "ab/1"}, {Name: "b"}, {Name: "c/x/2"}}
	for _, c := range []struct {
		patterns, want []string
	}{
		{nil, []string{"a/1", "a/2", "ab/1", "b", "c/x/2"}},
		{[]string{"a/2"}, []string{"a/2"}},
		{[]string{"a/"}, []string{"a/1", "a/2"}},
		{[]string{"a"}, []string{"a/1", "a/2"}},
		{[]string{"b", "a/1", "a/1"}, []string{"a/1", "b"}},
		{[]string{"*2"}, []string{"a/2", "c/x/2"}},
		{[]string{"a?1"}, []string{"a/1"}},
		{[]string{"[b-c]*"}, []string{"b", "c/x/2"}},
		{[]string{"a*"}, []string{"a/1", "a/2", "ab/1"}},
	} {
		list, err := Select(cases, c.patterns...)
		var got []string
		for _, s := range list {
			got = append(got, s.Name)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("Select(%q) = %q, %v, want %q", c.patterns, got, err, c.want)
		}
	}
	if len(cases) != 5 || cases[3].Name != "b" {
		t.Errorf("Select changed its argument: %+v", cases)
	}
}

func TestSelectNamesTheNearestCases(t *testing.T) {
	cases := []Case{
		{Name: "host_to_device_memcpy_ce/vulkan:0", Family: "host_to_device_memcpy_ce"},
		{Name: "device_to_host_memcpy_ce/vulkan:0", Family: "device_to_host_memcpy_ce"},
		{Name: "device_local_copy/vulkan:0", Family: "device_local_copy"},
	}
	for pattern, want := range map[string]string{
		"host_to_device_memcpy": "host_to_device_memcpy_ce,",
		"device_local_kopy":     "device_local_copy,",
		"":                      "--list shows all",
		"nothing like it":       "--list shows all",
		"device_*kopy":          "device_local_copy",
		"a[":                    "without a ]",
		"[z-a]":                 "is not a pattern",
	} {
		list, err := Select(cases, pattern)
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) || list != nil {
			t.Errorf("Select(%q) = %v, %v, want the text %q", pattern, list, err, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// listed is a backend of devices that cannot be opened.
type listed []core.Properties

func (l listed) Name() string                                             { return "vulkan" }
func (l listed) Probe(context.Context) core.Probe                         { return core.Probe{Available: true} }
func (l listed) Devices(context.Context) ([]core.Properties, error)       { return l, nil }
func (l listed) Open(context.Context, core.DeviceID) (core.Device, error) { return nil, core.ErrDevice }

func TestDevicesArePairedByNameAndUUID(t *testing.T) {
	vulkan := func(i int32) core.DeviceID { return core.DeviceID{Type: core.DeviceVulkan, Index: i} }
	r := hostRegistry(t)
	if err := r.Register(listed{
		{ID: vulkan(0), UUID: core.UUID{0xaa, 0xbb, 0xcc, 0xdd, 1}},
		{ID: vulkan(1), UUID: core.UUID{0xaa, 0xbb, 0xcc, 0xdd, 2}},
		{ID: vulkan(2)},
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		want [2]core.DeviceID
		says string
	}{
		{"cpu,vulkan:0", [2]core.DeviceID{core.CPU, vulkan(0)}, ""},
		{" cuda , cpu", [2]core.DeviceID{{Type: core.DeviceCUDA}, core.CPU}, ""},
		{"aabbccdd-01,GPU-AABBCCDD-02", [2]core.DeviceID{vulkan(0), vulkan(1)}, ""},
		{"aabbccdd,cpu", [2]core.DeviceID{}, "several devices"},
		{"00000000,cpu", [2]core.DeviceID{}, "no device has"}, // which has no UUID is not the one of zeros
		{"nonsense,cpu", [2]core.DeviceID{}, "neither the name"},
		{"cpu", [2]core.DeviceID{}, "not a pair"},
		{"cpu,vulkan,gl", [2]core.DeviceID{}, "not a pair"},
		{"vulkan:1,vulkan:1", [2]core.DeviceID{}, "with itself"},
	} {
		got, err := FindPair(t.Context(), r, c.text)
		if c.says == "" && (err != nil || got != c.want) || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("FindPair(%q) = %v, %v, want %v, %q", c.text, got, err, c.want, c.says)
		}
	}
}

func TestChainsOfDevices(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // of String
		says string
	}{
		{"cpu->cuda:1->cpu", "cpu->cuda:1->cpu", ""},
		{"(cpu -> cuda:1)", "cpu->cuda:1", ""},
		{"cpu\u2192cuda:1", "cpu->cuda:1", ""},
		{"(cpu->cuda:1->cuda:1)", "(cpu->cuda:1->cuda:1)", ""},
		{" ( cuda:1 -> cuda:1 -> cpu ) ", "(cuda:1->cuda:1->cpu)", ""},
		{"(vulkan:0->vulkan:0->cuda:1)", "(vulkan:0->vulkan:0->cuda:1)", ""},
		{"(cpu->cpu->cpu)", "(cpu->cpu->cpu)", ""},
		{"(cpu->cuda:1->vulkan:0->cpu)", "cpu->cuda:1->vulkan:0->cpu", ""},
		{"(cpu->cuda:1->cpu)", "", "source or of the destination"},
		{"(cuda:1->gl:0->vulkan:0)", "", "from cuda:1 to vulkan:0 by gl:0"},
		{"(cpu->cpu->cuda:1)", "", "write (cpu->cuda:1->cuda:1)"},
		{"(cuda:1->cpu->cpu)", "", "write (cuda:1->cuda:1->cpu)"},
		{"(cpu->cuda:1", "", "one parenthesis"},
		{"cpu", "", "two or more"},
		{"", "", "not a chain"},
		{"cpu->", "", "not a chain"},
		{"cpu->gpu0", "", "gpu0"},
	} {
		got, err := ParseTransfer(t.Context(), hostRegistry(t), c.text)
		if c.says == "" && (err != nil || got.String() != c.want) || c.says != "" && (!errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("ParseTransfer(%q) = %v, %v, want %v, %q", c.text, got, err, c.want, c.says)
		}
	}
	list := List(t.Context(), Selection{Registry: hostRegistry(t), Transfers: []string{"cpu->gpu0"}})
	if report, err := Run(t.Context(), list, Options{Registry: hostRegistry(t)}); err != nil || len(list) != 1 || report.Cases[0].Status != Failed {
		t.Errorf("%+v, %v", report.Cases, err)
	}
}

func TestOnlyWhatIsAskedForIsListed(t *testing.T) {
	vulkan, gl := core.DeviceID{Type: core.DeviceVulkan}, core.DeviceID{Type: core.DeviceGL}
	pair := [][2]core.DeviceID{{core.CPU, vulkan}}
	for _, c := range []struct {
		name string
		s    Selection
		want func(Case) bool
	}{
		{"a pair", Selection{Pairs: pair}, func(c Case) bool {
			return len(c.From) == 1 && c.From[0] == core.CPU && c.To[0] == vulkan
		}},
		{"a transfer", Selection{Transfers: []string{"cpu->vulkan"}}, func(c Case) bool { return c.Family == "transfer" }},
		{"a device", Selection{Devices: []core.DeviceID{gl}}, func(c Case) bool {
			// Of the groups, those that are there: none here.
			return strings.Contains(c.Family, "_all_") || strings.Contains(c.Family, "all_to") || slices.Contains(append(slices.Clone(c.From), c.To...), gl)
		}},
		{"sizes", Selection{Devices: []core.DeviceID{gl}, Sizes: []int64{8192}}, func(c Case) bool {
			return c.Kind != Bandwidth || c.Size == 8192 || c.Family == "many" || c.Family == "frames" || strings.HasPrefix(c.Family, "strided/")
		}},
		{"a buffer", Selection{Devices: []core.DeviceID{gl}, Buffer: 12345}, func(c Case) bool {
			return c.Family != "host_to_device_memcpy_ce" || c.Size == 12345
		}},
	} {
		list := List(t.Context(), c.s)
		if len(list) == 0 {
			t.Errorf("%s: no cases", c.name)
		}
		for _, one := range list {
			if !c.want(one) {
				t.Errorf("%s: %+v", c.name, one)
			}
		}
	}
}

func TestCasesAreSelectedByNumberAndInLists(t *testing.T) {
	cases := []Case{{Name: "host_to_device_memcpy_ce/vulkan:0", Family: "host_to_device_memcpy_ce"}, {Name: "device_local_copy/vulkan:0", Family: "device_local_copy"},
		{Name: "call/empty", Family: "call/empty"}, {Name: "odd/a,b"}, {Name: "odd/a"}}
	for pattern, want := range map[string]string{
		"0": "host_to_device_memcpy_ce/vulkan:0", "34": "device_local_copy/vulkan:0", "034": "device_local_copy/vulkan:0",
		"call/, 34": "device_local_copy/vulkan:0 call/empty", "34,0": "host_to_device_memcpy_ce/vulkan:0 device_local_copy/vulkan:0",
		"odd/a,b": "odd/a,b", "odd/a": "odd/a", "odd/[a,]*": "odd/a,b odd/a",
	} {
		got, err := Select(cases, pattern)
		var names []string
		for _, c := range got {
			names = append(names, c.Name)
		}
		if err != nil || strings.Join(names, " ") != want {
			t.Errorf("%q: %v, %v", pattern, names, err)
		}
	}
	for pattern, want := range map[string]string{
		"35": "those of nvbandwidth are 0 to 34", "99999999999999999999": "those of nvbandwidth are 0 to 34",
		"18": `"host_to_device_bidirectional_memcpy_sm", which is number 18 of nvbandwidth`, "-1": "no case is called", "0,": `no case is called ""`, "0,nosuch": "nosuch", "call,35": "0 to 34",
	} {
		if _, err := Select(cases, pattern); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	if n, ok := cases[1].Number(); n != 34 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if _, ok := cases[2].Number(); ok {
		t.Error("nvbandwidth has no empty call")
	}
}
