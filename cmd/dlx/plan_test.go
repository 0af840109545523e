package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/buildtag"
	"github.com/dlx-go/dlx/stream"
)

// planned runs a plan with the CPU, devices that map host memory, ext_dev, and
// devices whose memory the host can see and that export it, webgpu.
func planned(t *testing.T, args ...string) outcome {
	t.Helper()
	maps := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})
	exports := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf, Opaque: true})
	return dlxWith(t, t.Context(), []core.Backend{cpu.New(), maps, exports, driverless{}}, append([]string{"plan"}, args...)...)
}

func TestPlanPrintsAMatrixOfMechanisms(t *testing.T) {
	want := `FROM \ TO  cpu                         ext_dev:0                   ext_dev:1                   webgpu:0                  webgpu:1
cpu        alias                       map                         map                         map                       map
ext_dev:0  direct                      alias                       peer                        staged                    staged
ext_dev:1  direct                      peer                        alias                       staged                    staged
webgpu:0   direct (host_visible: map)  staged (host_visible: map)  staged (host_visible: map)  alias                     peer (host_visible: map)
webgpu:1   direct (host_visible: map)  staged (host_visible: map)  staged (host_visible: map)  peer (host_visible: map)  alias

vulkan  not available: libvulkan.so.1 was not found
`
	for _, name := range []string{"cuda", "rocm", "opencl", "oneapi", "gl", "metal"} {
		want += fmt.Sprintf("%-7s not available: %s\n", name, buildtag.Missing(name))
	}
	if got := planned(t).stdout; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPlanOfAPairTellsStepsAndRefusals(t *testing.T) {
	const want = `memory: plain, 4.10 kB
webgpu:0 -> ext_dev:0: staged, 8192 bytes copied
  1. webgpu:0 copies to the host, piece by piece (4096 bytes)
  2. ext_dev:0 copies from the host, while the next piece arrives (4096 bytes)
  not alias: use the memory as it is: it is memory of webgpu:0
  not map: export memory of webgpu:0, import it into ext_dev:0: ext_dev:0 cannot import memory
  not map: the host views memory of webgpu:0, and that view is mapped into ext_dev:0: webgpu: HostView: not supported: the memory was not allocated with AllocOptions.HostVisible
  not peer: ext_dev:0 copies from its peer webgpu:0: they are of different backends
  not direct: the host views memory of webgpu:0, ext_dev:0 copies from there: webgpu: HostView: not supported: the memory was not allocated with AllocOptions.HostVisible
  not direct: the host views memory of ext_dev:0, webgpu:0 copies into it: the host cannot use memory of ext_dev:0 in place
  not direct: allocate memory of ext_dev:0 for export, webgpu:0 imports it and copies into it: ext_dev:0 cannot export memory

memory: host_visible, 4.10 kB
webgpu:0 -> ext_dev:0: map, 0 bytes copied
  1. view memory of webgpu:0 from the host
  2. map the view into ext_dev:0
  not alias: use the memory as it is: it is memory of webgpu:0
  not map: export memory of webgpu:0, import it into ext_dev:0: ext_dev:0 cannot import memory
`
	if got := planned(t, "--from", "webgpu:0", "--to", "ext_dev:0", "--bytes", "4096").stdout; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPlanTriesTheMemoryAndTheCopiesThatItIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		args      string
		memory    memoryKind
		mechanism string
		reason    string // why nothing could be tried, a part of it
	}{
		{"--from webgpu:0 --to cpu --memory host_visible", hostVisible, "map", ""},
		{"--from webgpu:0 --to cpu --memory plain", plainMemory, "direct", ""},
		{"--from webgpu:0 --to cpu --memory export", exportable, "direct", ""},
		{"--from ext_dev:0 --to cpu --memory export", exportable, "", "ext_dev:0 cannot export memory"},
		{"--from ext_dev:0 --to cpu --copy never", plainMemory, "none", ""},
		{"--from cpu --to ext_dev:0 --copy always", plainMemory, "direct", ""},
		{"--from ext_dev:0 --to cpu --bytes 9223372036854775807", plainMemory, "", "9.22 EB (9223372036854775807 bytes) cannot be allocated on ext_dev:0: ext_dev: Alloc: out of memory"},
		{"--from ext_dev:0 --to cpu --bytes 0", plainMemory, "alias", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := decode[planResult](t, planned(t, append(strings.Fields(c.args), "--json")...), "plan")
			if len(r.Pairs) != 1 || len(r.Pairs[0].Ways) != 1 || r.Missing != nil {
				t.Fatalf("%+v", r)
			}
			w := r.Pairs[0].Ways[0]
			if w.Memory != c.memory || !strings.Contains(w.Reason, c.reason) || (w.Route == nil) != (c.reason != "") {
				t.Fatalf("%+v", w)
			}
			if w.Route != nil && (w.Route.Mechanism != c.mechanism || c.mechanism == "none" && len(w.Route.Refused) == 0) {
				t.Errorf("%+v", w.Route)
			}
		})
	}
}

// The plan is printed all the same, since it says why.
func TestPlanFailsWhereNamedDevicesHaveNoWay(t *testing.T) {
	for _, c := range []struct {
		args   string
		code   int
		stderr string // a part of it
	}{
		{"--from ext_dev:0 --to cpu --copy never", exitFailed, "no way for 1.05 MB (1048576 bytes) ext_dev:0 -> cpu: the plan says why"},
		{"--from ext_dev:0 --to ext_dev:0,cpu,webgpu:0 --copy never", exitFailed, "no way for 1.05 MB (1048576 bytes) ext_dev:0 -> cpu, ext_dev:0 -> webgpu:0:"},
		{"--from ext_dev:0 --to cpu --memory export", exitFailed, "(1048576 bytes) ext_dev:0 -> cpu:"},
		{"--from ext_dev:0 --to cpu --bytes 9223372036854775807", exitFailed, "ext_dev:0 -> cpu: 9.22 EB (9223372036854775807 bytes) cannot be allocated on ext_dev:0: "},
		{"--from ext_dev:0 --bytes 8000PB", exitFailed, "8.00 EB (8000000000000000000 bytes) cannot be allocated on ext_dev:0: "}, // the size was asked for
		{"--from ext_dev:0 --bytes 4k --copy never", exitOK, ""},
		{"--from ext_dev:0 --to ext_dev:0 --copy never", exitOK, ""},
		{"--from ext_dev:0 --copy never", exitOK, ""}, // pairs that nobody named
		{"--copy never", exitOK, ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			o := planned(t, append(strings.Fields(c.args), "--json")...)
			if o.code != c.code || !strings.Contains(o.stderr, c.stderr) || (o.stderr == "") != (c.stderr == "") {
				t.Errorf("exit code %d, want %d; stderr %q, want %q", o.code, c.code, o.stderr, c.stderr)
			}
			var e *errorResult
			if r := decodeBoth[planResult](t, o, "plan", &e); len(r.Pairs) == 0 {
				t.Errorf("%+v", r)
			}
			if strings.Contains(c.stderr, "allocated") && e.Kind != core.ErrOutOfMemory.Error() {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestPlanTellsWhichHandleExportedMemoryHas(t *testing.T) {
	const want = "memory: export as opaque_fd, 1.05 MB\nwebgpu:0 -> cpu: direct, "
	if got := planned(t, "--from", "webgpu:0", "--to", "cpu", "--memory", "export").stdout; !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	const none = "memory: export, 1.05 MB\next_dev:0 -> cpu: ext_dev:0 cannot export memory\n"
	if got := planned(t, "--from", "ext_dev:0", "--to", "cpu", "--memory", "export").stdout; got != none {
		t.Errorf("got\n%s\nwant\n%s", got, none)
	}
}

func TestPlanSaysBelowTheMatrixWhatCouldNotBeTried(t *testing.T) {
	const want = `FROM \ TO  cpu  webgpu:0
ext_dev:0  -    -

- ext_dev:0 -> cpu, ext_dev:0 -> webgpu:0: ext_dev:0 cannot export memory
`
	if got := planned(t, "--from", "ext_dev:0", "--to", "cpu,webgpu:0", "--memory", "export").stdout; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPlanTakesListsOfDevices(t *testing.T) {
	const want = `FROM \ TO  cpu     ext_dev:1
ext_dev:0  direct  peer
`
	if got := planned(t, "--from", "ext_dev:0", "--to", "cpu,ext_dev:1").stdout; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPlanLeavesOutADeviceThatDoesNotOpen(t *testing.T) {
	maps := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})
	maps.Fail("Open", 2, core.ErrDeviceLost)
	o := dlxWith(t, t.Context(), []core.Backend{cpu.New(), maps}, "plan", "--json")
	r := decode[planResult](t, o, "plan")
	if len(r.Pairs) != 4 || len(r.Missing) == 0 || r.Missing[0].Name != "ext_dev:1" || !strings.Contains(r.Missing[0].Reason, "device lost") {
		t.Errorf("exit code %d, %+v", o.code, r)
	}
}
