//go:build cuda && linux && cgo

package facts

import (
	"reflect"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/dlx-go/dlx/core"
)

// library is NVML with one card, or none.
func library(found nvml.Return) (*mock.Interface, *int) {
	open := new(int)
	card := &mock.Device{
		GetClockInfoFunc:                    func(c nvml.ClockType) (uint32, nvml.Return) { return 1000 + uint32(c), nvml.SUCCESS },
		GetTemperatureFunc:                  func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 40, nvml.SUCCESS },
		GetPowerUsageFunc:                   func() (uint32, nvml.Return) { return 70500, nvml.SUCCESS },
		GetCurrPcieLinkGenerationFunc:       func() (int, nvml.Return) { return 4, nvml.SUCCESS },
		GetCurrPcieLinkWidthFunc:            func() (int, nvml.Return) { return 8, nvml.SUCCESS },
		GetCurrentClocksThrottleReasonsFunc: func() (uint64, nvml.Return) { return 1 | 4 | 64, nvml.SUCCESS },
		GetMaxClockInfoFunc:                 func(nvml.ClockType) (uint32, nvml.Return) { return 1000, nvml.SUCCESS },
		GetMemoryBusWidthFunc:               func() (uint32, nvml.Return) { return 5120, nvml.SUCCESS },
	}
	return &mock.Interface{
		InitFunc:        func() nvml.Return { *open++; return nvml.SUCCESS },
		ShutdownFunc:    func() nvml.Return { *open--; return nvml.SUCCESS },
		ErrorStringFunc: func(r nvml.Return) string { return "an error" },
		DeviceGetHandleByPciBusIdFunc: func(string) (nvml.Device, nvml.Return) {
			return card, found
		},
	}, open
}

func card(pci string) Device {
	d := Device{}
	d.ID, d.PCI = core.DeviceID{Type: core.DeviceCUDA}, pci
	return d
}

func TestClocksOfACard(t *testing.T) {
	devices := []Device{card("0000:65:00.0"), missing(core.DeviceID{Type: core.DeviceCUDA, Index: 1}, "gone")}
	l, open := library(nvml.SUCCESS)
	before := func(d *Device) *DeviceReading { return &d.Before }
	readNVML(l, devices, before)
	want := DeviceReading{
		ComputeMHz: 1000 + int(nvml.CLOCK_SM), MemoryMHz: 1000 + int(nvml.CLOCK_MEM), Celsius: 40, Watts: 70.5,
		Link: "PCIe generation 4, x8", Throttled: []string{"power cap", "thermal, by hardware"},
	}
	if got := devices[0]; !reflect.DeepEqual(got.Before, want) || got.Memory == nil || got.Memory.GBPerSecond != 1280 || *open != 0 {
		t.Errorf("%+v, %+v, %d open", got.Before, got.Memory, *open)
	}
	if !reflect.DeepEqual(devices[1].Before, DeviceReading{}) {
		t.Errorf("%+v", devices[1])
	}

	devices = []Device{card("0000:65:00.0")}
	l, open = library(nvml.ERROR_NOT_FOUND)
	if readNVML(l, devices, before); !strings.Contains(devices[0].Before.Reason, "does not know the card") || *open != 0 {
		t.Errorf("%+v", devices[0].Before)
	}
	l.InitFunc = func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }
	if readNVML(l, devices, before); devices[0].Before.Reason != "NVML: an error" {
		t.Errorf("%+v", devices[0].Before)
	}
	l.InitFunc = func() nvml.Return { t.Error("NVML is loaded where there is no card"); return nvml.SUCCESS }
	readNVML(l, []Device{{Simulated: true}}, before)
}
