//go:build linux && cgo && vulkan && opencl && oneapi && gl && cuda && rocm

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/oneapi"
	"github.com/dlx-go/dlx/core/coretest"
)

// Unified shared memory is a stop of a tensor like any other, with a plan, a device and cases of dlx bench.
func TestATensorGoesThroughOneAPI(t *testing.T) {
	onDrivers(t, "version")
	coretest.NeedDriver(t, oneapi.New().Probe(t.Context()).Reason, "a driver with USM (scripts/fetch-newer-drivers.sh .cache/drivers intel)")
	for _, via := range []string{"cpu,oneapi:0,vulkan:0,cpu", "oneapi:0,opencl:0,oneapi:0", "cuda:0,oneapi:0,rocm:0,oneapi:0,gl,oneapi:0,cpu"} {
		for _, policy := range []string{"if_needed", "always"} {
			o := onDrivers(t, "move", digits, "--via", via, "--copy", policy, "--verify", "--json")
			if r := decode[moveResult](t, o, "move"); o.code != exitOK || !*r.Verified || len(r.Tensors) != 1 {
				t.Errorf("%s, %s: exit code %d, verified %v: %s", via, policy, o.code, *r.Verified, o.stderr)
			}
		}
	}
	if o := onDrivers(t, "devices"); !strings.Contains(o.stdout, "DEVICE oneapi:0") || !strings.Contains(o.stdout, "same hardware  oneapi:0") {
		t.Errorf("dlx devices: exit code %d\n%s", o.code, o.stdout)
	}
	if o := onDrivers(t, "plan", "--from", "cpu", "--to", "oneapi:0"); o.code != exitOK || !strings.Contains(o.stdout, "oneapi:0 copies from cpu") {
		t.Errorf("dlx plan: exit code %d\n%s", o.code, o.stdout)
	}
	o := onDrivers(t, "bench", "--list")
	if !slices.ContainsFunc(strings.Split(o.stdout, "\n"), func(line string) bool { return strings.Contains(line, "cpu/oneapi:0") }) {
		t.Errorf("dlx bench --list: exit code %d, without cpu/oneapi:0", o.code)
	}
}
