//go:build linux && cgo && vulkan && opencl && gl

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core/coretest"
)

// onDrivers runs the program with the backends of this build, on their drivers.
func onDrivers(t *testing.T, args ...string) outcome {
	t.Helper()
	registry := all.New()
	for _, b := range registry.Backends() {
		coretest.NeedDriver(t, b.Probe(t.Context()).Reason, "a driver for "+b.Name())
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), registry, args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func TestARealTensorGoesThroughVulkanAndOpenCLWithoutACopy(t *testing.T) {
	for _, via := range []string{"cpu,vulkan:0,opencl:0,cpu", "opencl:0,vulkan:0,cpu", "vulkan:0,cpu,opencl:0"} {
		for _, repeat := range []string{"1", "20"} {
			o := onDrivers(t, "handoff", digits, "--via", via, "--copy", "never", "--repeat", repeat, "--verify", "--json")
			r := decode[handoffResult](t, o, "handoff")
			if o.code != exitOK || r.BytesCopied != 0 || !*r.Verified {
				t.Errorf("%s: exit code %d, %d bytes copied, verified %v", via, o.code, r.BytesCopied, *r.Verified)
			}
		}
	}
}

func TestARealTensorArrivesOverEveryDevice(t *testing.T) {
	for _, file := range []string{digits, archive, tensors} {
		for _, policy := range []string{"if_needed", "always"} {
			o := onDrivers(t, "handoff", file, "--via", "cpu,opencl:0,vulkan:0,gl,vulkan:0,gl,opencl:0,gl,cpu", "--copy", policy, "--verify", "--json")
			if r := decode[handoffResult](t, o, "handoff"); o.code != exitOK || !*r.Verified {
				t.Errorf("%s, %s: exit code %d, verified %v", file, policy, o.code, *r.Verified)
			}
		}
	}
}

// What is copied with software drivers is copied for a reason that is told.
func TestThePlanExplainsEveryRealPair(t *testing.T) {
	r := decode[planResult](t, onDrivers(t, "plan", "--json"), "plan")
	if len(r.Missing) > 0 || len(r.Pairs) != 16 {
		t.Fatalf("%d pairs, missing %+v", len(r.Pairs), r.Missing)
	}
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
		if !shared && !strings.HasPrefix(p.To.String(), "gl") {
			t.Errorf("%v -> %v copies, whatever the memory", p.From, p.To)
		}
	}
}
