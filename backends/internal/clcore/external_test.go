//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/clcore/faults"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// PoCL imports no descriptors. What a driver would do is stood in for: all around
// it is held to its rules here, the driver's own part is not.
func TestImportOfADescriptor(t *testing.T) {
	needDriver(t, OpenCL)
	installFaults()
	table := driver.Table()
	kept := slices.Clone(table)
	defer copy(table, kept)
	all, err := list(OpenCL)
	if err != nil {
		t.Fatal(err)
	}
	l := all[0]
	l.acquire, l.release = faults.ServeFDs(table)
	l.importTypes = []core.HandleType{core.HandleOpaqueFD}
	l.properties.Capabilities |= core.CapImportMemory
	l.properties.UUID, l.properties.DriverUUID = core.UUID{1}, core.UUID{2}
	c, s := driver.CreateContext(l.platform, l.handle)
	if err := OpenCL.check(s, "clCreateContext", "for a test"); err != nil {
		t.Fatal(err)
	}
	d, err := openDevice(l, c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	importer := d.(core.MemoryImporter)

	fd, err := unix.MemfdCreate("dlx", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, 8192); err != nil {
		t.Fatal(err)
	}
	h, err := backendkit.NewHandle(core.HandleOpaqueFD, uintptr(fd))
	if err != nil {
		t.Fatal(err)
	}
	good := core.ExternalMemory{
		Handle: h, Size: 8192, Offset: 4096, Length: 100,
		DeviceUUID: l.properties.UUID, DriverUUID: l.properties.DriverUUID,
	}
	for name, bad := range map[string]struct {
		change   func(*core.ExternalMemory)
		sentinel error
	}{
		"another device":             {func(m *core.ExternalMemory) { m.DeviceUUID[0]++ }, core.ErrDevice},
		"another driver":             {func(m *core.ExternalMemory) { m.DriverUUID[0]++ }, core.ErrDevice},
		"another kind of handle":     {func(m *core.ExternalMemory) { m.Handle = coretest.HandleOf(t, core.HandleDMABuf, fd) }, core.ErrNotSupported},
		"a closed descriptor":        {func(m *core.ExternalMemory) { m.Handle = coretest.DeadHandle(t, core.HandleOpaqueFD) }, core.ErrInvalid},
		"a descriptor that is short": {func(m *core.ExternalMemory) { m.Size = 8193 }, core.ErrInvalid},
		"no bytes":                   {func(m *core.ExternalMemory) { m.Length = 0 }, core.ErrInvalid},
		"bytes beyond the end":       {func(m *core.ExternalMemory) { m.Length = 4097 }, core.ErrInvalid},
		"a negative offset":          {func(m *core.ExternalMemory) { m.Offset = -1 }, core.ErrInvalid},
	} {
		m := good
		bad.change(&m)
		memory, err := importer.ImportMemory(t.Context(), m)
		if err == nil {
			memory.Free()
		}
		coretest.WantError(t, err, bad.sentinel, name)
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			t.Fatalf("%s: the descriptor is not the caller's any more: %v", name, err)
		}
	}

	peer, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(peer)
	m, err := importer.ImportMemory(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
		t.Error("the descriptor is still open after the import")
	}
	tensor := coretest.Keep(t)(wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{100}}))
	defer tensor.Close() // before the device is
	content := coretest.Pattern(100, 1)
	_, before := faults.Acquired()
	coretest.Put(t, d, tensor, content)
	theirs := make([]byte, 100)
	if _, err := unix.Pread(peer, theirs, 4096); err != nil || !bytes.Equal(theirs, content) {
		t.Errorf("the other side reads %v, error %v", theirs, err)
	}
	if now, ever := faults.Acquired(); now != 0 || ever != before+1 {
		t.Errorf("the memory was acquired %d times, want once, and is so %d times still", ever-before, now)
	}

	// A copy within the memory acquires it once, and releases it even if its command fails.
	first, second := coretest.Keep(t)(tensor.Slice(0, 0, 50, 1)), coretest.Keep(t)(tensor.Slice(0, 50, 100, 1))
	defer first.Close()
	defer second.Close()
	for _, fails := range []bool{false, true} {
		call := slices.Index(faults.Calls(), "clEnqueueCopyBuffer")
		if fails {
			faults.Arm(call, 1)
		}
		_, before := faults.Acquired()
		err := d.Copy(t.Context(), nil, second, first)
		if fails != (err != nil) || fails && !faults.Disarm(call) {
			t.Errorf("a copy within the memory: error %v, want one: %v", err, fails)
		}
		if now, ever := faults.Acquired(); now != 0 || ever != before+1 {
			t.Errorf("a copy within the memory acquired it %d times, want once, and it is so %d times still", ever-before, now)
		}
	}
	if _, err := unix.Pread(peer, theirs, 4096); err != nil || !bytes.Equal(theirs[50:], content[:50]) {
		t.Errorf("the other side reads %v after a copy, error %v", theirs, err)
	}
}
