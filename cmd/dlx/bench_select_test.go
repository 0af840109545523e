package main

import (
	"slices"
	"strings"
	"testing"
)

func TestSizesOfBuffers(t *testing.T) {
	for text, want := range map[string][]int64{
		"":          nil,
		"4096":      {4096},
		"1K:8K":     {1 << 10, 2 << 10, 4 << 10, 8 << 10},
		"1k:3KiB":   {1 << 10, 2 << 10},
		"1M,4K,4KB": {4 << 10, 1 << 20},
		"2G":        {2 << 30},
		"1M:1M":     {1 << 20},
	} {
		if got, err := parseSizes(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"0": "at least 1", "-1": "at least 0", "x": "not a size", "1K:": "not a size", ":1K": "not a size", "8K:1K": "larger than the last",
		"1.5": "not a whole number", "2048G": "1 TiB", "1,,2": "not a size", "1:2:3": "not a size",
	} {
		if text == "2048G" { // 2 TiB
			text = "2048Gi"
		}
		if got, err := parseSizes(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestBenchSaysWhatIsWrongWithASelection(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-t host_to_devise_memcpy_ce", "nearest names are"},
		{"-t a[", "without a ]"},
		{"--device nosuch:0", "--device"},
		{"--pair cpu", "not a pair"},
		{"--pair cpu,cpu", "with itself"},
		{"--transfer cpu", "has one device"},
		{"--sizes 8K:1K", "larger than the last"},
		{"-b 0", "at least 1"},
		{"-b x", "not a size"},
		{"--transfer cpu->foo:0", "not a chain"},
		{"-i x", "not a number"},
		{"--max-time 5", "missing unit"},
		{"--device vulkan:7 -t call/", "--device, --pair and --transfer leave out"},
	} {
		o := dlx(t, slices.Concat(quick, strings.Fields(c.args))...)
		if o.code != exitUsage || o.stdout != "" || !strings.Contains(o.stderr, c.want) {
			t.Errorf("%s: %+v", c.args, o)
		}
		for _, never := range []string{"invalid argument: ", "benchmarks", "FindDevice", "strconv", "time:"} {
			if strings.Contains(o.stderr, never) {
				t.Errorf("%s: %q in %s", c.args, never, o.stderr)
			}
		}
	}
}

func TestBenchMeasuresWhatIsSelected(t *testing.T) {
	all := decode[benchList](t, dlx(t, "bench", "-l", "--json"), "bench").List
	some := decode[benchList](t, dlx(t, "bench", "-l", "--json", "--device", "ext_dev:1", "-b", "1", "-t", "host_to_device_memcpy_ce"), "bench").List
	if len(some) == 0 || len(some) >= len(all) || some[0].Name != "host_to_device_memcpy_ce/ext_dev:1" {
		t.Errorf("%+v", some)
	}
	o := dlx(t, append(quick, "--simulated", "--json", "--transfer", "cpu->ext_dev:0->cpu", "-b", "64KiB")...)
	r := decode[benchResult](t, o, "bench")
	if len(r.Cases) != 1 || r.Cases[0].Name != "transfer/cpu->ext_dev:0->cpu" || r.Cases[0].Size != 64<<10 || !r.Cases[0].Verified {
		t.Errorf("%+v", r.Cases)
	}
}
