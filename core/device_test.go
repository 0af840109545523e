package core_test

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// The values are those of DLDeviceType; 19 to 21 are on the header's main branch.
func TestDeviceTypes(t *testing.T) {
	for value, want := range map[core.DeviceType]struct {
		name, backend string
		host, opaque  bool
	}{
		1:  {"cpu", "cpu", true, false},
		2:  {"cuda", "cuda", false, false},
		3:  {"cuda_host", "cuda", true, false},
		4:  {"opencl", "opencl", false, true},
		7:  {"vulkan", "vulkan", false, true},
		8:  {"metal", "metal", false, true},
		9:  {"vpi", "vpi", false, false},
		10: {"rocm", "rocm", false, false},
		11: {"rocm_host", "rocm", true, false},
		12: {"ext_dev", "ext_dev", false, false},
		13: {"cuda_managed", "cuda", true, false},
		14: {"oneapi", "oneapi", false, false},
		15: {"webgpu", "webgpu", false, true},
		16: {"hexagon", "hexagon", false, false},
		17: {"maia", "maia", false, false},
		18: {"trn", "trn", false, false},
		19: {"tpu", "tpu", false, false},
		20: {"tpu_host", "tpu", false, false},
		21: {"ascend", "ascend", false, false},
		0:  {"device0", "device0", false, false},
		5:  {"device5", "device5", false, false},
		6:  {"device6", "device6", false, false},
		22: {"device22", "device22", false, false},
		-7: {"device-7", "device-7", false, false},
	} {
		if value.String() != want.name || value.BackendName() != want.backend ||
			value.HostAccessible() != want.host || value.OpaqueHandle() != want.opaque {
			t.Errorf("%d: %v %v %v %v, want %v", int32(value), value, value.BackendName(), value.HostAccessible(), value.OpaqueHandle(), want)
		}
		if got, err := core.ParseDeviceType(want.name); err != nil || got != value {
			t.Errorf("ParseDeviceType(%q) = %d, %v; want %d", want.name, got, err, value)
		}
	}
}

func TestParseDevice(t *testing.T) {
	for s, want := range map[string]struct {
		id    core.DeviceID
		print string
	}{
		"cpu":             {core.CPU, "cpu"},
		"cpu:0":           {core.CPU, "cpu"},
		"cpu:2":           {core.DeviceID{Type: core.DeviceCPU, Index: 2}, "cpu:2"},
		"cuda:0":          {core.DeviceID{Type: core.DeviceCUDA}, "cuda:0"},
		"cuda":            {core.DeviceID{Type: core.DeviceCUDA}, "cuda:0"},
		"cuda_host":       {core.DeviceID{Type: core.DeviceCUDAHost}, "cuda_host"},
		"vulkan:12":       {core.DeviceID{Type: core.DeviceVulkan, Index: 12}, "vulkan:12"},
		"device99:1":      {core.DeviceID{Type: 99, Index: 1}, "device99:1"},
		"cuda:2147483647": {core.DeviceID{Type: core.DeviceCUDA, Index: 1<<31 - 1}, "cuda:2147483647"},
	} {
		got, err := core.ParseDevice(s)
		if err != nil || got != want.id || got.String() != want.print {
			t.Errorf("ParseDevice(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", ":", "cuda:", ":0", "cuda:-1", "cuda:+1", "cuda:01", "cuda:2147483648", "cuda:0:0", "CUDA:0", "gpu:0", "device1", "device", "device007"} {
		if got, err := core.ParseDevice(s); !errors.Is(err, core.ErrDevice) {
			t.Errorf("ParseDevice(%q) = %v, %v; want ErrDevice", s, got, err)
		}
	}
}

func TestCapabilitiesAndUUIDPrint(t *testing.T) {
	c := core.CapAsync | core.CapPool | core.CapSubByte
	if got := c.String(); got != "async,pool,sub_byte" {
		t.Errorf("%q", got)
	}
	all := core.CapSubByte<<1 - 1
	if got := len(all.Names()); got != 13 {
		t.Errorf("%d capabilities have names, want 13", got)
	}
	if !c.Has(core.CapAsync|core.CapPool) || c.Has(core.CapPeer|core.CapAsync) {
		t.Error("Has must ask for all")
	}
	u := core.UUID{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 15: 0xff}
	if got := u.String(); got != "01234567-89ab-cdef-0000-0000000000ff" {
		t.Error(got)
	}
	for _, c := range []core.Capabilities{0, c, all} {
		var got core.Capabilities
		if err := got.UnmarshalText([]byte(c.String())); err != nil || got != c {
			t.Errorf("%v comes back as %v, %v", c, got, err)
		}
	}
	var back core.UUID
	if err := back.UnmarshalText([]byte(u.String())); err != nil || back != u {
		t.Errorf("%v comes back as %v, %v", u, back, err)
	}
	if err := c.UnmarshalText([]byte("async,fast")); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("an unknown capability: %v, want ErrInvalid", err)
	}
	for _, s := range []string{"", "0123", u.String() + "00", "zz234567-89ab-cdef-0000-0000000000ff"} {
		if err := back.UnmarshalText([]byte(s)); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("UUID %q: %v, want ErrInvalid", s, err)
		}
	}
}
