// Package external proves what can be proved of memory and semaphores of other APIs
// before a driver gets their handles, and keeps the rule that a descriptor stays its
// caller's until all went well.
package external

import (
	"errors"
	"slices"
	"syscall"

	"github.com/dlx-go/dlx/core"
)

// Importer is what a device imports.
type Importer struct {
	Backend string            // named in errors
	Types   []core.HandleType // of memory; a semaphore is an opaque descriptor
	// The device's own UUIDs. DriverUUID is zero where its API has none.
	DeviceUUID, DriverUUID core.UUID
	// Software says that the driver is one of Mesa's for the CPU: an opaque descriptor
	// is a memory file then, which the driver reads.
	Software bool
}

// CheckMemory checks all of m but its descriptor: with ErrNotSupported the type, with
// ErrDevice whose it is, with ErrInvalid the range. Handles that one device and driver
// understand must be of the same ones (VUID-VkImportMemoryFdInfoKHR-fd-00668), as far as
// both APIs tell their driver's UUID; a dma-buf that tells its device, of that; memory
// of the host has no UUID.
func (i *Importer) CheckMemory(m core.ExternalMemory) error {
	const call = "ImportMemory"
	var none core.UUID
	switch {
	case !slices.Contains(i.Types, m.Type):
		return i.errorf(core.ErrNotSupported, call, "Type is %v; %v can be imported", m.Type, i.Types)
	case m.Type == core.HandleMemFD && (m.DeviceUUID != none || m.DriverUUID != none),
		m.Type != core.HandleDMABuf && !i.same(m.DeviceUUID, m.DriverUUID),
		m.Type == core.HandleDMABuf && m.DeviceUUID != none && m.DeviceUUID != i.DeviceUUID:
		return i.another(call, m.DeviceUUID, m.DriverUUID)
	case m.Size < 0 || m.Offset < 0 || m.Length <= 0 || m.Length > m.Size-m.Offset:
		return i.errorf(core.ErrInvalid, call, "Offset %d + Length %d must lie within Size %d, and Length be at least 1", m.Offset, m.Length, m.Size)
	}
	return nil
}

// CheckSemaphore checks all of x but its descriptor, as [Importer.CheckMemory] does.
func (i *Importer) CheckSemaphore(x core.ExternalSemaphore) error {
	const call = "ImportSemaphore"
	switch {
	case x.Type != core.HandleOpaqueFD:
		return i.errorf(core.ErrNotSupported, call, "Type is %v; a timeline semaphore can be imported as %v", x.Type, core.HandleOpaqueFD)
	case !i.same(x.DeviceUUID, x.DriverUUID):
		return i.another(call, x.DeviceUUID, x.DriverUUID)
	}
	return nil
}

// same reports whether device and driver are the importer's own. A driver's UUID that
// one API does not tell is no difference.
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
