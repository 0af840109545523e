package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// backendWith is a backend that finds what a test says.
type backendWith struct {
	namedBackend
	reason  string // why it is not available
	devices int
	err     error
}

func (b backendWith) Probe(context.Context) core.Probe {
	return core.Probe{Available: b.reason == "", Reason: b.reason}
}

func (b backendWith) Devices(context.Context) ([]core.Properties, error) {
	if b.reason != "" {
		return nil, errors.New(b.reason)
	}
	found := make([]core.Properties, b.devices)
	for i := range found {
		found[i].Name = fmt.Sprintf("%s %d", b.namedBackend, i)
	}
	return found, b.err
}

func TestDevicesOfAllBackends(t *testing.T) {
	var r core.Registry
	for _, b := range []backendWith{
		{namedBackend: "cpu", devices: 1},
		{namedBackend: "cuda", reason: "no driver"},
		{namedBackend: "gl", devices: 1, err: core.ErrDeviceLost},
		{namedBackend: "vulkan", devices: 2},
		{namedBackend: "opencl", err: core.ErrVersion},
	} {
		if err := r.Register(b); err != nil {
			t.Fatal(err)
		}
	}
	devices, err := r.Devices(t.Context())
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
	}
	if got := strings.Join(names, ","); got != "cpu 0,gl 0,vulkan 0,vulkan 1" {
		t.Error(got)
	}
	if !errors.Is(err, core.ErrDeviceLost) || !errors.Is(err, core.ErrVersion) || !strings.Contains(err.Error(), "opencl: Devices: ") || strings.Contains(err.Error(), "no driver") {
		t.Error(err)
	}
	if p := r.Probes(t.Context()); len(p) != 5 || p[1].Backend != "cuda" || p[1].Reason != "no driver" || !p[3].Available {
		t.Error(p)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Devices(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if devices, err := new(core.Registry).Devices(t.Context()); len(devices) != 0 || err != nil {
		t.Error(devices, err)
	}
}
