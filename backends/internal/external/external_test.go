package external_test

import (
	"errors"
	"math"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/core"
)

// importer imports all that the rules are about.
var importer = external.Importer{
	Backend: "test", Types: []core.HandleType{core.HandleOpaqueFD, core.HandleDMABuf, core.HandleCUDAIPC},
	DeviceUUID: core.UUID{1}, DriverUUID: core.UUID{2},
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	var typed *core.Error
	if want == nil && err == nil {
		return
	}
	if !errors.Is(err, want) || !errors.As(err, &typed) || typed.Backend != "test" || typed.Call == "" || typed.Detail == "" {
		t.Errorf("error %v, want %v", err, want)
	}
}

func TestCheckMemory(t *testing.T) {
	host := external.Importer{Backend: "test", Types: []core.HandleType{core.HandleMemFD}}
	untold := importer
	untold.DriverUUID = core.UUID{}
	for _, c := range []struct {
		rule   string
		by     external.Importer
		change func(*core.ExternalMemory)
		want   error
	}{
		{"all of an allocation", importer, func(m *core.ExternalMemory) { m.Offset, m.Length = 0, m.Size }, nil},
		{"its last byte", importer, func(m *core.ExternalMemory) { m.Offset, m.Length = m.Size-1, 1 }, nil},
		{"no type", importer, func(m *core.ExternalMemory) { m.Type = 0 }, core.ErrNotSupported},
		{"a type that is not imported", importer, func(m *core.ExternalMemory) { m.Type = core.HandleMemFD }, core.ErrNotSupported},
		{"another device", importer, func(m *core.ExternalMemory) { m.DeviceUUID[3] ^= 1 }, core.ErrDevice},
		{"no device", importer, func(m *core.ExternalMemory) { m.DeviceUUID = core.UUID{} }, core.ErrDevice},
		{"another driver", importer, func(m *core.ExternalMemory) { m.DriverUUID[3] ^= 1 }, core.ErrDevice},
		{"another driver of another process", importer, func(m *core.ExternalMemory) { m.Type, m.DriverUUID[3] = core.HandleCUDAIPC, 1 }, core.ErrDevice},
		{"an exporter that does not tell its driver", importer, func(m *core.ExternalMemory) { m.DriverUUID = core.UUID{} }, nil},
		{"an importer that does not tell its driver", untold, func(m *core.ExternalMemory) {}, nil},
		{"a dma-buf of the device", importer, func(m *core.ExternalMemory) { m.Type, m.DriverUUID = core.HandleDMABuf, core.UUID{9} }, nil},
		{"a dma-buf of nobody", importer, func(m *core.ExternalMemory) { m.Type, m.DeviceUUID = core.HandleDMABuf, core.UUID{} }, nil},
		{"a dma-buf of another device", importer, func(m *core.ExternalMemory) { m.Type, m.DeviceUUID = core.HandleDMABuf, core.UUID{9} }, core.ErrDevice},
		{"memory of the host", host, func(m *core.ExternalMemory) {
			m.Type, m.DeviceUUID, m.DriverUUID = core.HandleMemFD, core.UUID{}, core.UUID{}
		}, nil},
		{"memory of the host with a driver", host, func(m *core.ExternalMemory) { m.Type, m.DeviceUUID = core.HandleMemFD, core.UUID{} }, core.ErrDevice},
		{"no bytes", importer, func(m *core.ExternalMemory) { m.Length = 0 }, core.ErrInvalid},
		{"a negative length", importer, func(m *core.ExternalMemory) { m.Length = math.MinInt64 }, core.ErrInvalid},
		{"a negative offset", importer, func(m *core.ExternalMemory) { m.Offset = -1 }, core.ErrInvalid},
		{"a negative size", importer, func(m *core.ExternalMemory) { m.Size = -1 }, core.ErrInvalid},
		{"a negative size that underflows", importer, func(m *core.ExternalMemory) { m.Size, m.Offset = math.MinInt64, 1 }, core.ErrInvalid},
		{"a range one byte beyond the end", importer, func(m *core.ExternalMemory) { m.Length = m.Size - m.Offset + 1 }, core.ErrInvalid},
		{"a range that overflows", importer, func(m *core.ExternalMemory) { m.Offset, m.Length = math.MaxInt64, math.MaxInt64 }, core.ErrInvalid},
	} {
		t.Run(c.rule, func(t *testing.T) {
			m := core.ExternalMemory{Type: core.HandleOpaqueFD, Size: 8192, Offset: 4096, Length: 100, DeviceUUID: core.UUID{1}, DriverUUID: core.UUID{2}}
			c.change(&m)
			wantError(t, c.by.CheckMemory(m), c.want)
		})
	}
}

func TestCheckSemaphore(t *testing.T) {
	for _, c := range []struct {
		rule   string
		change func(*core.ExternalSemaphore)
		want   error
	}{
		{"a semaphore of the device", func(*core.ExternalSemaphore) {}, nil},
		{"another type", func(x *core.ExternalSemaphore) { x.Type = core.HandleDMABuf }, core.ErrNotSupported},
		{"another device", func(x *core.ExternalSemaphore) { x.DeviceUUID[15] ^= 1 }, core.ErrDevice},
		{"another driver", func(x *core.ExternalSemaphore) { x.DriverUUID[15] ^= 1 }, core.ErrDevice},
		{"an exporter that does not tell its driver", func(x *core.ExternalSemaphore) { x.DriverUUID = core.UUID{} }, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			x := core.ExternalSemaphore{Type: core.HandleOpaqueFD, DeviceUUID: core.UUID{1}, DriverUUID: core.UUID{2}}
			c.change(&x)
			wantError(t, importer.CheckSemaphore(x), c.want)
		})
	}
}
