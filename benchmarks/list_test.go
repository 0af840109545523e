package benchmarks

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func names(cases []Case) (list []string) {
	for _, c := range cases {
		list = append(list, c.Name)
	}
	return list
}

func TestSelectTakesNamesBeginningsAndGlobs(t *testing.T) {
	cases := []Case{{Name: "a/1"}, {Name: "a/2/x"}, {Name: "ab/1"}, {Name: "b"}, {Name: "a.c"}}
	for _, c := range []struct {
		patterns, want []string
		reason         string
	}{
		{nil, []string{"a/1", "a/2/x", "ab/1", "b", "a.c"}, ""},
		{[]string{"a"}, []string{"a/1", "a/2/x"}, ""},
		{[]string{"a/"}, []string{"a/1", "a/2/x"}, ""},
		{[]string{"a/2"}, []string{"a/2/x"}, ""},
		{[]string{"b", "a/1"}, []string{"a/1", "b"}, ""},
		{[]string{"a*"}, []string{"a/1", "a/2/x", "ab/1", "a.c"}, ""},
		{[]string{"*/x"}, []string{"a/2/x"}, ""},
		{[]string{"a?1"}, []string{"a/1"}, ""},
		{[]string{"a[.]c"}, []string{"a.c"}, ""},
		{[]string{"[ab]"}, []string{"b"}, ""},
		{[]string{"a/3"}, nil, "nearest names are a"},
		{[]string{"xyzzy-xyzzy"}, nil, "--list"},
		{[]string{""}, nil, `called ""`},
		{[]string{"a["}, nil, "without a ]"},
		{[]string{"[b-a]"}, nil, "not a pattern"},
	} {
		got, err := Select(cases, c.patterns...)
		if (err != nil) != (c.reason != "") || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("Select(%q): %v", c.patterns, err)
		}
		if !slices.Equal(names(got), c.want) {
			t.Errorf("Select(%q) = %q, want %q", c.patterns, names(got), c.want)
		}
	}
}

func TestTheNearestNamesAreShown(t *testing.T) {
	cases := List(t.Context(), Selection{})
	_, err := Select(cases, "host_to_devise_memcpy_ce")
	if err == nil || !strings.Contains(err.Error(), "host_to_device_memcpy_ce") {
		t.Errorf("%v", err)
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3}, {"ab", "ba", 2}} {
		if got := distance(c.a, c.b); got != c.want || distance(c.b, c.a) != got {
			t.Errorf("from %q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func simulatedRegistry(t *testing.T) *core.Registry {
	t.Helper()
	r := hostRegistry(t)
	if err := r.Register(coretest.NewBackend(coretest.Options{Submit: stream.Submit})); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestASelectionBoundsTheCases(t *testing.T) {
	r := simulatedRegistry(t)
	ext, other := core.DeviceID{Type: core.DeviceExt}, core.DeviceID{Type: core.DeviceExt, Index: 1}
	list := func(s Selection) []Case {
		s.Registry = r
		return List(t.Context(), s)
	}
	everywhere := list(Selection{})
	for _, want := range []string{"device_local_copy/ext_dev:0", "device_local_copy/ext_dev:1", "device_local_copy/cuda:0", "device_to_device_memcpy_read_ce/ext_dev:0/ext_dev:1", "copy/contiguous/4KiB"} {
		if !slices.Contains(names(everywhere), want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, c := range list(Selection{Devices: []core.DeviceID{other}}) {
		if strings.Contains(c.Name, "ext_dev:0") || strings.Contains(c.Name, "cuda") || strings.HasPrefix(c.Name, "copy/") {
			t.Errorf("%s is not of the device", c.Name)
		}
	}
	for _, c := range list(Selection{Pairs: [][2]core.DeviceID{{ext, core.CPU}}}) {
		if !slices.Equal(c.From, Ends{ext}) || !slices.Equal(c.To, Ends{core.CPU}) {
			t.Errorf("%s is not of the pair", c.Name)
		}
	}
	if got := names(list(Selection{Transfers: []string{"cpu -> ext_dev:1"}})); !slices.Equal(got, []string{"transfer/cpu->ext_dev:1"}) {
		t.Errorf("%q", got)
	}
	sized := names(list(Selection{Devices: []core.DeviceID{ext}, Sizes: []int64{4096, 1 << 20}}))
	for _, want := range []string{"host_to_device_memcpy_ce/ext_dev:0/4KiB", "host_to_device_memcpy_ce/ext_dev:0/1MiB", "host_to_device_memcpy_ce/ext_dev:0/pageable/4KiB"} {
		if !slices.Contains(sized, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, c := range list(Selection{Devices: []core.DeviceID{ext}, Buffer: 12345}) {
		if c.Family == "host_to_device_memcpy_ce" && c.Size != 12345 {
			t.Errorf("%s has the size %d", c.Name, c.Size)
		}
	}
}

func TestDevicesPairsAndChainsAreParsed(t *testing.T) {
	r := simulatedRegistry(t)
	ctx := context.Background()
	for s, want := range map[string]string{"vulkan:3": "vulkan:3", "cpu": "cpu"} {
		if id, err := FindDevice(ctx, r, s); err != nil || id.String() != want {
			t.Errorf("%q: %v, %v", s, id, err)
		}
	}
	for s, want := range map[string]string{
		"": "neither the name", "nosuch:0": "neither the name", "0123456789abcdef": "no device has the UUID", "GPU-01234567-89ab": "no device has the UUID",
	} {
		if _, err := FindDevice(ctx, r, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", s, err)
		}
	}
	devices, err := r.Devices(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range devices {
		if p.UUID != (core.UUID{}) {
			if id, err := FindDevice(ctx, r, "GPU-"+strings.ToUpper(p.UUID.String())); err != nil || id != p.ID {
				t.Errorf("%v: %v, %v", p.ID, id, err)
			}
		}
	}
	if p, err := FindPair(ctx, r, "cpu, vulkan:0"); err != nil || p[0] != core.CPU || p[1].Type != core.DeviceVulkan {
		t.Errorf("%v, %v", p, err)
	}
	for s, want := range map[string]string{"cpu": "not a pair", "cpu,cpu": "with itself", "cpu,x": "neither the name", "a,b,c": "not a pair"} {
		if _, err := FindPair(ctx, r, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"cpu->vulkan:0->cpu", "(cpu -> vulkan:0 -> cpu)", "cpu\u2192vulkan:0\u2192cpu"} {
		if chain, err := ParseTransfer(ctx, r, s); err != nil || len(chain) != 3 {
			t.Errorf("%q: %v, %v", s, chain, err)
		}
	}
	for s, want := range map[string]string{"cpu": "has one device", "": "not a chain", "cpu->": "not a chain", "cpu->nosuch": "not a chain"} {
		if _, err := ParseTransfer(ctx, r, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", s, err)
		}
	}
}
