//go:build linux && cgo && vulkan && opencl && gl && cuda && rocm

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/cmd/dlx/internal/move"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/doctor"
	"github.com/dlx-go/dlx/tensorfile"
)

// onDrivers runs the program with the backends of this build, on their drivers.
func onDrivers(t *testing.T, args ...string) outcome {
	t.Helper()
	registry := all.New()
	for _, b := range registry.Backends() {
		if reason := b.Probe(t.Context()).Reason; b.Name() != "oneapi" { // one test is of it
			coretest.NeedDriver(t, reason, "a driver for "+b.Name())
		}
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), registry, args, strings.NewReader(""), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// software describes the drivers of this test that are not the same everywhere.
type software struct {
	vulkanMaps bool // Vulkan maps host memory; SwiftShader does not
	vulkanIsGL bool // Vulkan and OpenGL are of one driver; SwiftShader has no OpenGL
}

func softwareDrivers(t *testing.T) software {
	t.Helper()
	var p [2]core.Properties
	for i, x := range []core.DeviceType{core.DeviceVulkan, core.DeviceGL} {
		d, err := all.New().Open(t.Context(), core.DeviceID{Type: x})
		if err != nil {
			t.Fatal(err)
		}
		p[i] = d.Properties()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	s := software{p[0].Capabilities.Has(core.CapMapHost), p[0].UUID == p[1].UUID}
	if s != (software{true, true}) && !strings.Contains(p[0].Driver, "SwiftShader") {
		t.Errorf("%s: %+v", p[0].Driver, s)
	}
	return s
}

// The pages of a mapped file are read-only. They are copied to the first device, and shared from there on.
func TestARealTensorGoesThroughVulkanAndOpenCLWithOneCopy(t *testing.T) {
	onDrivers(t, "version")
	needed := "the host can only read the memory"
	if !softwareDrivers(t).vulkanMaps {
		needed = "vulkan:0 cannot map host memory"
	}
	for _, via := range []string{"cpu,vulkan:0,opencl:0,cpu", "vulkan:0,opencl:0", "vulkan:0,cpu,opencl:0", "cpu,opencl:0,cpu"} {
		for _, repeat := range []string{"1", "20"} {
			o := onDrivers(t, "move", digits, "--via", via, "--repeat", repeat, "--verify", "--json")
			r := decode[moveResult](t, o, "move")
			if o.code != exitOK || !*r.Verified || len(r.Tensors) != 1 {
				t.Fatalf("%s: exit code %d, verified %v", via, o.code, r.Verified)
			}
			copies := 0
			for _, hop := range r.Tensors[0].Hops {
				if hop.BytesCopied == 0 {
					continue
				}
				copies++
				if !slices.ContainsFunc(hop.Refused, func(r move.Refusal) bool {
					return strings.Contains(r.Reason, "the host can only read the memory") || hop.To == "vulkan:0" && strings.Contains(r.Reason, needed)
				}) {
					t.Errorf("%s: %s to %s: %d bytes copied, for %+v", via, hop.From, hop.To, hop.BytesCopied, hop.Refused)
				}
			}
			if copies != 1 {
				t.Errorf("%s: %d hops copy: %+v", via, copies, r.Tensors[0].Hops)
			}
		}
	}
	if o := onDrivers(t, "move", digits, "--via", "vulkan:0", "--copy", "never"); o.code != exitFailed || !strings.Contains(o.stderr, needed) {
		t.Errorf("--copy never: exit code %d, %s", o.code, o.stderr)
	}
}

func TestARealTensorArrivesOverEveryDevice(t *testing.T) {
	for _, file := range []string{digits, archive, tensors} {
		for _, policy := range []string{"if_needed", "always"} {
			o := onDrivers(t, "move", file, "--via", "cpu,cuda:0,opencl:0,rocm:0,vulkan:0,cuda:0,gl,rocm:0,opencl:0,gl,rocm:1,cuda:1,cuda:0,rocm:0,cpu", "--copy", policy, "--verify", "--json")
			if r := decode[moveResult](t, o, "move"); o.code != exitOK || !*r.Verified {
				t.Errorf("%s, %s: exit code %d, verified %v", file, policy, o.code, *r.Verified)
			}
		}
	}
}

// A buffer goes from CUDA to Vulkan and from Vulkan to CUDA without a copy, on the one device that both have. The simulated drivers give ROCm
// the same device.
func TestARealTensorIsSharedByCUDAVulkanAndROCm(t *testing.T) {
	onDrivers(t, "version")
	drivers := softwareDrivers(t)
	for _, via := range []string{"cpu,cuda:0,vulkan:0,cpu", "cpu,opencl:0,cuda:0,vulkan:0,cuda:0,vulkan:0,cpu", "cuda:0,vulkan:0", "cpu,cuda:0,gl,cpu", "cpu,rocm:0,vulkan:0,rocm:0,gl,cpu", "rocm:0,vulkan:0"} {
		for _, repeat := range []string{"1", "20"} {
			o := onDrivers(t, "move", digits, "--via", via, "--repeat", repeat, "--verify", "--json")
			r := decode[moveResult](t, o, "move")
			if o.code != exitOK || !*r.Verified || len(r.Tensors) != 1 {
				t.Fatalf("%s: exit code %d, verified %v", via, o.code, *r.Verified)
			}
			for _, hop := range r.Tensors[0].Hops {
				if graphics := hop.To != "cpu" && hop.From != "cpu" && hop.From != "file" && hop.From != "opencl:0" && (drivers.vulkanIsGL || hop.To != "gl:0" && hop.From != "gl:0"); graphics && hop.BytesCopied != 0 {
					t.Errorf("%s: %s to %s: %s, %d bytes copied, for %+v", via, hop.From, hop.To, hop.Mechanism, hop.BytesCopied, hop.Refused)
				}
			}
		}
	}
}

// CUDA and ROCm take no memory of each other: a tensor goes from one to the other through the host, and on from there without a copy.
func TestARealTensorGoesFromROCmToCUDAAndVulkan(t *testing.T) {
	o := onDrivers(t, "move", digits, "--via", "cpu,rocm:0,cuda:0,vulkan:0,cpu", "--verify", "--json")
	r := decode[moveResult](t, o, "move")
	if o.code != exitOK || !*r.Verified || len(r.Tensors) != 1 || len(r.Tensors[0].Hops) != 5 {
		t.Fatalf("exit code %d: %+v", o.code, r)
	}
	for i, copies := range []bool{false, true, true, false, true} {
		if hop := r.Tensors[0].Hops[i]; hop.BytesCopied > 0 != copies {
			t.Errorf("%s to %s: %s, %d bytes copied, for %+v", hop.From, hop.To, hop.Mechanism, hop.BytesCopied, hop.Refused)
		}
	}
}

// Small slices of Go that a device maps lie on pages with others, which the collector
// frees meanwhile: whoever keeps a pointer to the page's start ends the process, sooner
// or later. DLX_MOVE_REPEAT makes that sooner, with 5000 trips or more.
func TestManySmallTensorsGoWhileTheCollectorRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.npz")
	var tensors []tensorfile.Named
	for i := range 40 {
		x, err := core.FromSlice(make([]float32, 4+i))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		tensors = append(tensors, tensorfile.Named{Name: strconv.Itoa(i), Tensor: x})
	}
	if err := tensorfile.WriteFile(t.Context(), path, tensors, tensorfile.WriteOptions{Compress: true}); err != nil {
		t.Fatal(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	ctx, cancel := context.WithCancel(t.Context())
	var collector sync.WaitGroup
	defer collector.Wait()
	defer cancel()
	collector.Go(func() {
		for ctx.Err() == nil {
			runtime.GC()
		}
	})
	repeat := "100"
	if long := os.Getenv("DLX_MOVE_REPEAT"); long != "" {
		repeat = long
	}
	if o := onDrivers(t, "move", path, "--via", "vulkan:0,cpu", "--repeat", repeat, "--verify"); o.code != exitOK {
		t.Errorf("%+v", o)
	}
}

// What is copied with software drivers is copied for a reason that is told.
func TestThePlanExplainsEveryRealPair(t *testing.T) {
	r := decode[planResult](t, onDrivers(t, "plan", "--json"), "plan")
	drivers := softwareDrivers(t)
	devices := 9
	missing := []string{"oneapi", "metal"} // Metal needs macOS, and not every driver for OpenCL has unified shared memory
	if len(r.Missing) == 1 {
		devices, missing = 10, missing[1:]
	}
	if got := slices.Collect(func(yield func(string) bool) {
		for _, m := range r.Missing {
			if !yield(m.Name) {
				return
			}
		}
	}); !slices.Equal(got, missing) || len(r.Pairs) != devices*devices {
		t.Fatalf("%d pairs, missing %+v", len(r.Pairs), r.Missing)
	}
	// Vulkan's driver may not import memory of other devices. Plans say so only where the host can view the memory.
	noForeign := slices.ContainsFunc(r.Pairs, func(p pairResult) bool {
		return slices.ContainsFunc(p.Ways[0].Route.Refused, func(r move.Refusal) bool {
			return strings.Contains(r.Reason, "VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_MAPPED_FOREIGN_MEMORY_BIT_EXT")
		})
	})
	for _, p := range r.Pairs {
		for _, w := range p.Ways {
			switch {
			case w.Route == nil || w.Route.Mechanism == "none" || len(w.Route.Steps) == 0:
				t.Errorf("%v -> %v, %s memory: no way: %+v", p.From, p.To, w.Memory, w)
			case w.Route.BytesCopied > 0 && len(w.Route.Refused) == 0:
				t.Errorf("%v -> %v, %s memory: %s without a reason", p.From, p.To, w.Memory, w.Route.Mechanism)
			}
		}
		shared := p.Ways[0].Route.BytesCopied == 0 || len(p.Ways) > 1 && p.Ways[1].Route.BytesCopied == 0
		card := func(t core.DeviceType) bool { return t == core.DeviceCUDA || t == core.DeviceROCM }
		hosts := p.From.Type != core.DeviceCUDA && !card(p.To.Type) && p.To.Type != core.DeviceGL // memory that the host reaches and they map
		if p.From.Type != core.DeviceCPU && p.From != p.To && p.To.Type == core.DeviceVulkan && noForeign {
			hosts = false
		}
		if p.To.Type == core.DeviceVulkan && !drivers.vulkanMaps {
			hosts = false
		}
		if p.From.Type == core.DeviceWebGPU || p.To.Type == core.DeviceWebGPU { // which copies from and to all others
			hosts = false
		}
		exported := card(p.From.Type) || p.From.Type == core.DeviceVulkan
		imported := card(p.To.Type) || p.To.Type == core.DeviceVulkan || p.To.Type == core.DeviceGL && drivers.vulkanIsGL
		foreign := card(p.From.Type) && card(p.To.Type) && p.From.Type != p.To.Type // of another vendor
		one := p.From.Index == p.To.Index                                           // the devices that the APIs have in common
		if want := p.From == p.To || hosts || exported && imported && one && !foreign; shared != want {
			t.Errorf("%v -> %v: shared %v, want %v: %+v", p.From, p.To, shared, want, p.Ways)
		}
	}
}

func TestTensorsAreLoadedOntoEveryDevice(t *testing.T) {
	for _, to := range []string{"cpu", "cuda:0", "rocm:0", "opencl:0", "vulkan:0", "gl"} {
		for _, read := range []string{"map", "direct"} {
			o := onDrivers(t, "load", tensors, "--to", to, "--read", read, "--verify", "--json")
			r := decode[loadResult](t, o, "load")
			if o.code != exitOK || !*r.Verified {
				t.Errorf("%s, %s: exit code %d, %s", to, read, o.code, o.stderr)
			}
		}
	}
}

// Tensors are sent from each device to the same device of the receiver. Where it can open the memory, nothing is copied.
func TestDriversSendAndReceive(t *testing.T) {
	for device, shares := range map[string]bool{"vulkan:0": true, "cuda:0": true, "rocm:0": true, "opencl:0": false, "gl:0": false} {
		received, sent := passed(t, onDrivers, "--to "+device+" --verify", "send "+digits+" --from "+device)
		if received.code != exitOK || sent.code != exitOK {
			t.Errorf("%s: exit codes %d and %d:\n%s%s", device, received.code, sent.code, received.stderr, sent.stderr)
			continue
		}
		r, s := decode[sharedResult](t, received, "receive"), decode[sharedResult](t, sent, "send")
		if len(r.Tensors) != 1 || !*r.Tensors[0].Verified || shares && (r.BytesCopied != 0 || s.BytesCopied != 0) {
			t.Errorf("%s: received %+v, sent %+v", device, r, s)
		}
	}
}

// Each device passes its memory, semaphores and events to the same device of another process. What does not work has a reason.
func TestDoctorOnDrivers(t *testing.T) {
	o := startingItself(t, all.New(), "doctor", "--json", "--timeout", "60s")
	r := decode[doctorResult](t, o, "doctor")
	works := make(map[string]bool)
	for _, f := range r.Findings {
		works[f.From+" "+f.Way] = works[f.From+" "+f.Way] || f.Verdict == doctor.Works
		if f.Verdict != doctor.Works && f.Why == "" {
			t.Errorf("no reason: %+v", f)
		}
		if f.From != "" {
			t.Logf("%s %s -> %s: %s %s", f.Way, f.From, f.To, f.Verdict, f.Why)
		}
	}
	for _, way := range []string{"cpu memory as mem_fd", "vulkan:0 memory as opaque_fd"} {
		if !works[way] {
			t.Errorf("%s does not work", way)
		}
	}
}
