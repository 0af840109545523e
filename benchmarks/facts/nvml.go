//go:build cuda && linux && cgo

package facts

import (
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/dlx-go/dlx/core"
)

// readCards reads the clocks of NVIDIA's cards by NVML, into the reading that at returns.
func readCards(devices []Device, at func(*Device) *DeviceReading) { readNVML(nvml.New(), devices, at) }

func readNVML(library nvml.Interface, devices []Device, at func(*Device) *DeviceReading) {
	none := func(reason string) {
		for i := range devices {
			if d := &devices[i]; d.ID.Type == core.DeviceCUDA && d.Missing == "" {
				at(d).Reason = reason
			}
		}
	}
	if !wanted(devices) {
		return
	}
	if r := library.Init(); r != nvml.SUCCESS {
		none("NVML: " + library.ErrorString(r))
		return
	}
	defer func() { _ = library.Shutdown() }() // what was read is there
	for i := range devices {
		d := &devices[i]
		if d.ID.Type != core.DeviceCUDA || d.Missing != "" || d.Simulated {
			continue
		}
		card, r := library.DeviceGetHandleByPciBusId(d.PCI)
		if r != nvml.SUCCESS {
			at(d).Reason = fmt.Sprintf("NVML does not know the card at %q: %s", d.PCI, library.ErrorString(r))
			continue
		}
		*at(d) = readCard(card)
		if d.Memory == nil {
			d.Memory = cardMemory(card)
		}
	}
}

// wanted reports whether there is a card to read, so that NVML is not loaded in vain.
func wanted(devices []Device) bool {
	for _, d := range devices {
		if d.ID.Type == core.DeviceCUDA && d.Missing == "" && !d.Simulated {
			return true
		}
	}
	return false
}

// reasons are the bits of nvmlClocksEventReasons that hold the clocks down. Idle is none of them, nor is a clock that was set.
var reasons = []struct {
	bit  uint64
	name string
}{
	{nvml.ClocksEventReasonSwPowerCap, "power cap"},
	{nvml.ClocksThrottleReasonHwSlowdown, "hardware slowdown"},
	{nvml.ClocksEventReasonSwThermalSlowdown, "thermal"},
	{nvml.ClocksThrottleReasonHwThermalSlowdown, "thermal, by hardware"},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "power brake"},
}

// readCard reads one card. What a card does not tell stays empty.
func readCard(card nvml.Device) (r DeviceReading) {
	if mhz, ok := card.GetClockInfo(nvml.CLOCK_SM); ok == nvml.SUCCESS {
		r.ComputeMHz = int(mhz)
	}
	if mhz, ok := card.GetClockInfo(nvml.CLOCK_MEM); ok == nvml.SUCCESS {
		r.MemoryMHz = int(mhz)
	}
	if celsius, ok := card.GetTemperature(nvml.TEMPERATURE_GPU); ok == nvml.SUCCESS {
		r.Celsius = int(celsius)
	}
	if milliwatts, ok := card.GetPowerUsage(); ok == nvml.SUCCESS {
		r.Watts = float64(milliwatts) / 1000
	}
	generation, ok := card.GetCurrPcieLinkGeneration()
	if width, okWidth := card.GetCurrPcieLinkWidth(); ok == nvml.SUCCESS && okWidth == nvml.SUCCESS {
		r.Link = fmt.Sprintf("PCIe generation %d, x%d", generation, width)
	}
	if bits, ok := card.GetCurrentClocksThrottleReasons(); ok == nvml.SUCCESS {
		for _, reason := range reasons {
			if bits&reason.bit != 0 {
				r.Throttled = append(r.Throttled, reason.name)
			}
		}
	}
	return r
}

// cardMemory computes the peak of a card's memory, which transfers twice in each cycle of its clock.
func cardMemory(card nvml.Device) *Peak {
	mhz, ok := card.GetMaxClockInfo(nvml.CLOCK_MEM)
	width, okWidth := card.GetMemoryBusWidth()
	if ok != nvml.SUCCESS || okWidth != nvml.SUCCESS || mhz == 0 || width == 0 {
		return nil
	}
	gb := 2 * float64(mhz) * 1e6 * float64(width) / 8 / 1e9
	return &Peak{GBPerSecond: gb, Source: strings.TrimSpace(fmt.Sprintf("memory clock of %d MHz, twice a cycle, %d bits", mhz, width))}
}
