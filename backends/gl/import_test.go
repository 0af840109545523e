//go:build gl && linux && cgo

package gl

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// memoryFile is a file in memory of so many bytes, closed at the end.
func memoryFile(tb testing.TB, size int64) int {
	tb.Helper()
	fd, err := unix.MemfdCreate("dlx test", unix.MFD_CLOEXEC)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := unix.Close(fd); err != nil {
			tb.Errorf("descriptor %d is not the caller's any more: %v", fd, err)
		}
	})
	if err := unix.Ftruncate(fd, size); err != nil {
		tb.Fatal(err)
	}
	return fd
}

// headed is such a file of 64 KiB behind a head, as Mesa's drivers for the CPU begin one: its size, and where the memory begins.
func headed(tb testing.TB) int {
	tb.Helper()
	const head = 4096
	file := memoryFile(tb, head+1<<16)
	if _, err := unix.Pwrite(file, binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, head+1<<16), head), 0); err != nil {
		tb.Fatal(err)
	}
	return file
}

func TestImportMemoryRefusesWhatDoesNotFit(t *testing.T) {
	d := opened(t, asItIs)
	importer := d
	file := headed(t)
	headless := memoryFile(t, 1<<17)
	pipe, other, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer other.Close()
	unread, nothing := coretest.HandleOf(t, core.HandleOpaqueFD, headless), coretest.HandleOf(t, core.HandleOpaqueFD, int(pipe.Fd()))
	foreign := coretest.HandleOf(t, core.HandleDMABuf, file)
	valid := core.ExternalMemory{Handle: coretest.HandleOf(t, core.HandleOpaqueFD, file), Size: 1 << 16, Length: 1000, DeviceUUID: d.info.deviceUUID, DriverUUID: d.info.driverUUID}
	before := descriptors()
	for _, c := range []struct {
		rule   string
		change func(*core.ExternalMemory)
		want   error
	}{
		{"another handle type", func(m *core.ExternalMemory) { m.Handle = foreign }, core.ErrNotSupported},
		{"another device", func(m *core.ExternalMemory) { m.DeviceUUID[0] ^= 1 }, core.ErrDevice},
		{"another driver", func(m *core.ExternalMemory) { m.DriverUUID[0] ^= 1 }, core.ErrDevice},
		{"no UUIDs", func(m *core.ExternalMemory) { m.DeviceUUID, m.DriverUUID = core.UUID{}, core.UUID{} }, core.ErrDevice},
		{"a negative size", func(m *core.ExternalMemory) { m.Size = -1 }, core.ErrInvalid},
		{"a negative offset", func(m *core.ExternalMemory) { m.Offset = -1 }, core.ErrInvalid},
		{"no bytes", func(m *core.ExternalMemory) { m.Length = 0 }, core.ErrInvalid},
		{"a range that leaves the allocation", func(m *core.ExternalMemory) { m.Offset = m.Size }, core.ErrInvalid},
		{"a range that overflows", func(m *core.ExternalMemory) { m.Offset, m.Length = 1<<62, 1<<62 }, core.ErrInvalid},
		{"no handle", func(m *core.ExternalMemory) { m.Handle = nil }, core.ErrNotSupported},
		{"a closed descriptor", func(m *core.ExternalMemory) { m.Handle = coretest.DeadHandle(t, core.HandleOpaqueFD) }, core.ErrInvalid},
		{"a descriptor that is smaller than it claims", func(m *core.ExternalMemory) { m.Size = 1<<16 + 1 }, core.ErrInvalid},
		{"a file that does not tell what it holds", func(m *core.ExternalMemory) { m.Handle = unread }, core.ErrInvalid},
		{"memory that the driver did not make", func(*core.ExternalMemory) {}, core.ErrInvalid},
		{"a descriptor that is no memory", func(m *core.ExternalMemory) { m.Handle = nothing }, core.ErrInvalid},
		{"an allocation without room beyond the buffer", func(m *core.ExternalMemory) { m.Length = m.Size }, core.ErrOutOfMemory},
		{"a dedicated allocation of another driver", func(m *core.ExternalMemory) { m.Dedicated = true }, core.ErrInvalid},
	} {
		m := valid
		c.change(&m)
		memory, err := importer.ImportMemory(t.Context(), m)
		var typed *core.Error
		if !errors.Is(err, c.want) || !errors.As(err, &typed) || typed.Backend != "gl" || typed.Call == "" {
			t.Errorf("%s: error %v, want %q", c.rule, err, c.want)
		}
		if err == nil {
			memory.Free()
		}
		wantDescriptors(t, before, c.rule)
	}
}

// No software renderer has the extensions: this covers what comes before them, and
// that a driver which does nothing is found out.
func TestImportSemaphoreRefusesWhatDoesNotFit(t *testing.T) {
	d := opened(t, func(f *contextInfo) {
		for _, name := range semaphoreExtensions {
			f.extensions[name] = true
		}
	})
	if !d.Properties().Capabilities.Has(core.CapImportSemaphores) {
		t.Errorf("capabilities %v", d.Properties().Capabilities)
	}
	importer := d
	file := memoryFile(t, 64)
	foreign := coretest.HandleOf(t, core.HandleMemFD, file)
	valid := core.ExternalSemaphore{Handle: coretest.HandleOf(t, core.HandleOpaqueFD, file), DeviceUUID: d.info.deviceUUID, DriverUUID: d.info.driverUUID}
	before := descriptors()
	for _, c := range []struct {
		rule   string
		change func(*core.ExternalSemaphore)
		want   error
	}{
		{"another handle type", func(x *core.ExternalSemaphore) { x.Handle = foreign }, core.ErrNotSupported},
		{"another device", func(x *core.ExternalSemaphore) { x.DeviceUUID[0] ^= 1 }, core.ErrDevice},
		{"another driver", func(x *core.ExternalSemaphore) { x.DriverUUID[0] ^= 1 }, core.ErrDevice},
		{"a closed descriptor", func(x *core.ExternalSemaphore) { x.Handle = coretest.DeadHandle(t, core.HandleOpaqueFD) }, core.ErrInvalid},
		{"a driver without the extension", func(*core.ExternalSemaphore) {}, core.ErrInvalid},
	} {
		x := valid
		c.change(&x)
		s, err := importer.ImportSemaphore(t.Context(), x)
		var typed *core.Error
		if !errors.Is(err, c.want) || !errors.As(err, &typed) || typed.Backend != "gl" || typed.Call == "" {
			t.Errorf("%s: error %v, want %q", c.rule, err, c.want)
		}
		if err == nil {
			_ = s.Close()
		}
		wantDescriptors(t, before, c.rule)
	}
}
