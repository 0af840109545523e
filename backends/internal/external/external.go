// Package external checks what can be checked of memory and semaphores of other APIs
// before a driver gets their handles, and keeps the rule that an import takes a handle on
// success only.
package external

import (
	"errors"
	"os"
	"slices"
	"syscall"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// Importer describes what a device can import.
type Importer struct {
	Backend    string            // named in errors
	Types      []core.HandleType // of memory
	Semaphores core.HandleType   // of semaphores; 0 means HandleOpaqueFD
	Vendor     core.Vendor       // whose IPC handles it imports, where Types has HandleIPC
	// The device's own UUIDs. DriverUUID is zero where its API has none.
	DeviceUUID, DriverUUID core.UUID
	// Software says that the driver is one of Mesa's for the CPU. An opaque descriptor is then a memory file,
	// whose content the driver reads and trusts.
	Software bool
	// Files says that an opaque descriptor is a memory file with nothing but the memory, as SwiftShader's are. The
	// driver maps as much of it as it is told to.
	Files bool
}

// CheckMemory checks all of m but the payload of its handle: with ErrNotSupported the type
// and the vendor, with ErrDevice whose it is, with ErrInvalid the range. Handles that one device and driver
// understand must be of the same ones (VUID-VkImportMemoryFdInfoKHR-fd-00668), as far as
// both APIs tell their driver's UUID; a dma-buf that tells its device, of that; memory
// of the host has no UUID.
func (i *Importer) CheckMemory(m core.ExternalMemory) error {
	const call = "ImportMemory"
	var none core.UUID
	t := m.Handle.Type()
	if err := i.checkType(call, m.Handle, i.Types); err != nil {
		return err
	}
	switch {
	case t == core.HandleMemFD && (m.DeviceUUID != none || m.DriverUUID != none),
		t != core.HandleDMABuf && !i.same(m.DeviceUUID, m.DriverUUID),
		t == core.HandleDMABuf && m.DeviceUUID != none && m.DeviceUUID != i.DeviceUUID:
		return i.another(call, m.DeviceUUID, m.DriverUUID)
	case m.Size < 0 || m.Offset < 0 || m.Length <= 0 || m.Length > m.Size-m.Offset:
		return i.errorf(core.ErrInvalid, call, "Offset %d + Length %d must lie within Size %d, and Length be at least 1", m.Offset, m.Length, m.Size)
	}
	return nil
}

// CheckSemaphore checks all of x but the payload of its handle, as [Importer.CheckMemory] does.
func (i *Importer) CheckSemaphore(x core.ExternalSemaphore) error {
	t := i.Semaphores
	if t == 0 {
		t = core.HandleOpaqueFD
	}
	return i.checkObject("ImportSemaphore", x.Handle, t, x.DeviceUUID, x.DriverUUID)
}

// CheckEvent checks all of x but the payload of its handle, as [Importer.CheckMemory] does.
func (i *Importer) CheckEvent(x core.ExternalEvent) error {
	return i.checkObject("OpenIPCEvent", x.Handle, core.HandleIPC, x.DeviceUUID, x.DriverUUID)
}

// checkObject checks a handle of the one type t that can be imported, and whose it is.
func (i *Importer) checkObject(call string, h *core.Handle, t core.HandleType, device, driver core.UUID) error {
	if err := i.checkType(call, h, []core.HandleType{t}); err != nil {
		return err
	}
	if !i.same(device, driver) {
		return i.another(call, device, driver)
	}
	return nil
}

// checkType checks the type of a handle, and the vendor of an IPC handle.
func (i *Importer) checkType(call string, h *core.Handle, types []core.HandleType) error {
	switch t := h.Type(); {
	case !slices.Contains(types, t):
		return i.errorf(core.ErrNotSupported, call, "the handle's type is %v; %v can be imported", t, types)
	case t == core.HandleIPC && h.Vendor() != i.Vendor:
		return i.errorf(core.ErrNotSupported, call, "the handle's vendor is %v; IPC handles of %v can be imported", h.Vendor(), i.Vendor)
	}
	return nil
}

// same reports whether device and driver are the importer's own. The driver's UUID is not compared if one API
// does not report it.
func (i *Importer) same(device, driver core.UUID) bool {
	var none core.UUID
	return device == i.DeviceUUID && (driver == i.DriverUUID || driver == none || i.DriverUUID == none)
}

func (i *Importer) another(call string, device, driver core.UUID) error {
	return i.errorf(core.ErrDevice, call, "the handle is of DeviceUUID %v, DriverUUID %v; this device has %v, %v", device, driver, i.DeviceUUID, i.DriverUUID)
}

func (i *Importer) errorf(sentinel error, call, format string, args ...any) error {
	return core.Errorf(sentinel, i.Backend, call, format, args...)
}

// Refused returns the error err of a method of [core.Handle] as one of the call for which
// the handle was used.
func (i *Importer) Refused(call string, err error) error {
	var e *core.Error
	if !errors.As(err, &e) {
		return err
	}
	refused := *e
	refused.Backend, refused.Call = i.Backend, call
	return &refused
}

// Export returns a handle of type t that owns the descriptor fd. It closes fd on failure.
func Export(t core.HandleType, fd int) (*core.Handle, error) {
	h, err := backendkit.NewHandle(t, uintptr(fd))
	if err != nil {
		_ = os.NewFile(uintptr(fd), "exported").Close()
	}
	return h, err
}

// Give has a driver import the descriptor of h for a call: give gets a duplicate, and says
// whether the driver owns that from then on, be it with an error or without; else Give
// closes it. On success h is empty. On failure it is as it was: then the error is that of
// give or of [core.Handle.Duplicate].
func (i *Importer) Give(call string, h *core.Handle, give func(fd int) (taken bool, err error)) error {
	own, err := h.Duplicate()
	if err != nil {
		return i.Refused(call, err)
	}
	defer own.Close()
	fd, err := own.Number()
	if err != nil {
		return i.Refused(call, err)
	}
	taken, err := give(int(fd))
	if taken {
		_, _ = own.Take() // to leave it to the driver
	}
	if err == nil {
		_ = h.Close()
	}
	return err
}

// Memory is ImportMemory by a descriptor of m, which CheckMemory has passed: it checks the
// descriptor and has open import a duplicate, as [Importer.Give] does. The result knows
// what it was imported from.
func (i *Importer) Memory(m core.ExternalMemory, open func(fd int) (_ core.Memory, taken bool, err error)) (core.Memory, error) {
	const call = "ImportMemory"
	backing := m.Backing()
	var imported core.Memory
	err := i.Give(call, m.Handle, func(fd int) (taken bool, err error) {
		if err := i.CheckFD(call, m.Handle.Type(), fd, m.Size); err != nil {
			return false, err
		}
		imported, taken, err = open(fd)
		return taken, err
	})
	if err != nil {
		return core.Memory{}, err
	}
	imported.Backing = backing
	return imported, nil
}

// SystemError says that a call of the operating system failed with err, whose code it
// takes over; format and args tell what for.
func SystemError(sentinel error, backend, call string, err error, format string, args ...any) error {
	e := core.Errorf(sentinel, backend, call, format, args...)
	e.Detail += ": " + err.Error()
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Code = int64(errno)
	}
	return e
}
