package external_test

import (
	"errors"
	"math"
	"os"
	"runtime"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// importer imports all that the rules are about.
var importer = external.Importer{
	Backend: "test", Types: []core.HandleType{core.HandleOpaqueFD, core.HandleDMABuf, core.HandleIPC}, Vendor: core.VendorAMD,
	DeviceUUID: core.UUID{1}, DriverUUID: core.UUID{2},
}

// handle returns a handle of type k that stands for nothing.
func handle(t *testing.T, k core.HandleType) *core.Handle {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	return coretest.HandleOf(t, k, int(null.Fd()))
}

// ipc returns an IPC handle that stands for nothing.
func ipc(t *testing.T, v core.Vendor) *core.Handle {
	t.Helper()
	h, err := backendkit.NewIPCHandle(v, []byte{1})
	if err != nil {
		t.Fatal(err)
	}
	return h
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
	needDescriptors(t)
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
		{"no type", importer, func(m *core.ExternalMemory) { m.Handle = nil }, core.ErrNotSupported},
		{"a type that is not imported", importer, func(m *core.ExternalMemory) { m.Handle = handle(t, core.HandleMemFD) }, core.ErrNotSupported},
		{"another device", importer, func(m *core.ExternalMemory) { m.DeviceUUID[3] ^= 1 }, core.ErrDevice},
		{"no device", importer, func(m *core.ExternalMemory) { m.DeviceUUID = core.UUID{} }, core.ErrDevice},
		{"another driver", importer, func(m *core.ExternalMemory) { m.DriverUUID[3] ^= 1 }, core.ErrDevice},
		{"another driver of another process", importer, func(m *core.ExternalMemory) { m.Handle, m.DriverUUID[3] = ipc(t, core.VendorAMD), 1 }, core.ErrDevice},
		{"an IPC handle", importer, func(m *core.ExternalMemory) { m.Handle = ipc(t, core.VendorAMD) }, nil},
		{"an IPC handle of another vendor", importer, func(m *core.ExternalMemory) { m.Handle = ipc(t, core.VendorIntel) }, core.ErrNotSupported},
		{"an exporter that does not tell its driver", importer, func(m *core.ExternalMemory) { m.DriverUUID = core.UUID{} }, nil},
		{"an importer that does not tell its driver", untold, func(m *core.ExternalMemory) {}, nil},
		{"a dma-buf of the device", importer, func(m *core.ExternalMemory) { m.Handle, m.DriverUUID = handle(t, core.HandleDMABuf), core.UUID{9} }, nil},
		{"a dma-buf of nobody", importer, func(m *core.ExternalMemory) { m.Handle, m.DeviceUUID = handle(t, core.HandleDMABuf), core.UUID{} }, nil},
		{"a dma-buf of another device", importer, func(m *core.ExternalMemory) { m.Handle, m.DeviceUUID = handle(t, core.HandleDMABuf), core.UUID{9} }, core.ErrDevice},
		{"memory of the host", host, func(m *core.ExternalMemory) {
			m.Handle, m.DeviceUUID, m.DriverUUID = handle(t, core.HandleMemFD), core.UUID{}, core.UUID{}
		}, nil},
		{"memory of the host with a driver", host, func(m *core.ExternalMemory) { m.Handle, m.DeviceUUID = handle(t, core.HandleMemFD), core.UUID{} }, core.ErrDevice},
		{"no bytes", importer, func(m *core.ExternalMemory) { m.Length = 0 }, core.ErrInvalid},
		{"a negative length", importer, func(m *core.ExternalMemory) { m.Length = math.MinInt64 }, core.ErrInvalid},
		{"a negative offset", importer, func(m *core.ExternalMemory) { m.Offset = -1 }, core.ErrInvalid},
		{"a negative size", importer, func(m *core.ExternalMemory) { m.Size = -1 }, core.ErrInvalid},
		{"a negative size that underflows", importer, func(m *core.ExternalMemory) { m.Size, m.Offset = math.MinInt64, 1 }, core.ErrInvalid},
		{"a range one byte beyond the end", importer, func(m *core.ExternalMemory) { m.Length = m.Size - m.Offset + 1 }, core.ErrInvalid},
		{"a range that overflows", importer, func(m *core.ExternalMemory) { m.Offset, m.Length = math.MaxInt64, math.MaxInt64 }, core.ErrInvalid},
	} {
		t.Run(c.rule, func(t *testing.T) {
			m := core.ExternalMemory{Handle: handle(t, core.HandleOpaqueFD), Size: 8192, Offset: 4096, Length: 100, DeviceUUID: core.UUID{1}, DriverUUID: core.UUID{2}}
			c.change(&m)
			wantError(t, c.by.CheckMemory(m), c.want)
		})
	}
}

func TestCheckEvent(t *testing.T) {
	for _, c := range []struct {
		rule   string
		handle *core.Handle
		device core.UUID
		want   error
	}{
		{"an event of the device", ipc(t, core.VendorAMD), importer.DeviceUUID, nil},
		{"no handle", nil, importer.DeviceUUID, core.ErrNotSupported},
		{"another vendor", ipc(t, core.VendorNVIDIA), importer.DeviceUUID, core.ErrNotSupported},
		{"another device", ipc(t, core.VendorAMD), core.UUID{}, core.ErrDevice},
	} {
		t.Run(c.rule, func(t *testing.T) {
			wantError(t, importer.CheckEvent(core.ExternalEvent{Handle: c.handle, DeviceUUID: c.device, DriverUUID: importer.DriverUUID}), c.want)
		})
	}
}

func needDescriptors(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("dlx knows no descriptors on windows")
	}
}

func TestCheckSemaphore(t *testing.T) {
	needDescriptors(t)
	for _, c := range []struct {
		rule   string
		change func(*core.ExternalSemaphore)
		want   error
	}{
		{"a semaphore of the device", func(*core.ExternalSemaphore) {}, nil},
		{"another type", func(x *core.ExternalSemaphore) { x.Handle = handle(t, core.HandleDMABuf) }, core.ErrNotSupported},
		{"another device", func(x *core.ExternalSemaphore) { x.DeviceUUID[15] ^= 1 }, core.ErrDevice},
		{"another driver", func(x *core.ExternalSemaphore) { x.DriverUUID[15] ^= 1 }, core.ErrDevice},
		{"an exporter that does not tell its driver", func(x *core.ExternalSemaphore) { x.DriverUUID = core.UUID{} }, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			x := core.ExternalSemaphore{Handle: handle(t, core.HandleOpaqueFD), DeviceUUID: core.UUID{1}, DriverUUID: core.UUID{2}}
			c.change(&x)
			wantError(t, importer.CheckSemaphore(x), c.want)
		})
	}
}
