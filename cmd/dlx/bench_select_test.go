package main

import (
	"os"
	"path/filepath"
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
		"1M,4K,4KB": {4000, 4 << 10, 1 << 20},
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
		{"--html=", "it is empty"}, {"--plot=", "it is empty"}, {"--out=", "it is empty"}, {"--csv-file=", "it is empty"}, {"--compare=", "it is empty"},
		{"--sizes=", "it is empty"}, {"--buffer=", "it is empty"}, {"--device=", "no device is named"},
		{"-t core/slice --sizes 1K:4K", "--sizes: it has no effect"}, {"-t core/slice -b 1", "--buffer: it has no effect"},
		{"-t many --sizes 1K", "--sizes: it has no effect"}, {"--sizes 1K -b 1", "leave one of them out"},
		{"--tolerance 5%", "--tolerance has no effect without --compare or --against"}, {"-l --html x.html", "--html has no effect with --list"},
		{"-l --compare x.json", "--compare has no effect with --list"}, {"-l --csv-file x", "--csv-file has no effect with --list"},
		{"-t 35", "0 to 34"}, {"-t 18", "number 18 of nvbandwidth"}, {"-t core/slice,nosuch", "nosuch"},
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

// A device that is named and not there is one error, not one for each of its cases. That it is in the list of the machine counts, not
// that the command line is right.
func TestANamedDeviceThatIsNotThereIsOneError(t *testing.T) {
	for _, args := range []string{"--device ext_dev:9", "--pair cpu,ext_dev:9", "--transfer cpu->ext_dev:9", "--device ext_dev:9 -l", "--device cuda:0", "--device cpu,ext_dev:9 -t host_to_device_memcpy_ce"} {
		o := dlx(t, slices.Concat(quick, strings.Fields(args))...)
		if lines := strings.Count(o.stderr, "\n"); o.code != exitFailed || strings.Contains(o.stdout, "unsupported") || lines != 1 || !strings.Contains(o.stderr, "ext_dev:9") && !strings.Contains(o.stderr, "cuda:0") {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

func TestCasesAreSelectedInLists(t *testing.T) {
	names := func(args ...string) (list []string) {
		for _, c := range decode[benchList](t, dlx(t, append([]string{"bench", "-l", "--json"}, args...)...), "bench").List {
			list = append(list, c.Name)
			if n, want := c.Number, 34; (n != nil) != strings.HasPrefix(c.Name, "device_local_copy") || n != nil && *n != want {
				t.Errorf("%s has the number %v", c.Name, n)
			}
		}
		return list
	}
	if a, b := names("-t", "core/slice,34"), names("-t", "core/slice", "-t", "device_local_copy"); !slices.Equal(a, b) || len(a) < 2 {
		t.Errorf("%v and %v", a, b)
	}
}

func TestTwoOutputsAreNotOneFile(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(folder, "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Skip("the system has no symbolic links: ", err)
	}
	there := filepath.Join(folder, "there.csv")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{{"--json-file=" + folder + "/x", "--html=" + folder + "/x"}, {"--plot=" + folder + "/x.svg", "--html=" + folder + "/./x.svg"},
		{"--csv-file=" + there, "--json-file=" + link + "/there.csv"}, {"--csv-file=" + link + "/new", "--samples-file=" + folder + "/new"}} {
		if o := dlx(t, append(quick, "-t", "core/slice", pair[0], pair[1])...); o.code != exitFailed || o.stdout != "" || !strings.Contains(o.stderr, "name two files") {
			t.Errorf("%v: %+v", pair, o)
		}
	}
	if o := dlx(t, append(quick, "-t", "core/slice", "--csv-file="+os.DevNull, "--html="+os.DevNull, "--json-file="+there)...); o.code != exitOK {
		t.Errorf("%+v", o)
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
