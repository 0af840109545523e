package core

import "math"

// ExternalMemory is what another API or process needs to open an allocation. Its owner
// closes it: see [Handle] for who that is.
type ExternalMemory struct {
	Handle     *Handle
	Size       int64  // bytes of the whole allocation
	Offset     int64  // bytes from its start to the buffer's start
	Length     int64  // bytes of the buffer
	Dedicated  bool   // the allocation belongs to one resource; importers must say so too
	MemoryType uint32 // for HandleOpaqueFD, Vulkan's memoryTypeIndex: an import names the same one (VUID-VkMemoryAllocateInfo-allocationSize-01742), or NoMemoryType
	DeviceUUID UUID
	DriverUUID UUID // zero where the API does not tell it
}

// NoMemoryType is the MemoryType of memory that Vulkan did not make: that of CUDA's
// virtual memory management. Vulkan imports it with a type that suits its buffer and
// lies on the device, since the specification names none (Vulkan-Docs #1783); CUDA
// opens it by cuMemImportFromShareableHandle. Its DriverUUID is zero: CUDA tells none.
const NoMemoryType uint32 = math.MaxUint32

// Close closes the handle. It does nothing if an importer has taken it, or if it was
// closed before.
func (m ExternalMemory) Close() error { return m.Handle.Close() }

// Duplicate returns m with a duplicate of its handle, which the caller closes. It fails
// as [Handle.Duplicate] does.
func (m ExternalMemory) Duplicate() (ExternalMemory, error) {
	h, err := m.Handle.Duplicate()
	if err != nil {
		return ExternalMemory{}, err
	}
	m.Handle = h
	return m, nil
}

// check fails with ErrInvalid if the buffer leaves its allocation.
func (m *ExternalMemory) check(call string) error {
	if m.Size < 0 || m.Offset < 0 || m.Length < 0 || m.Length > m.Size-m.Offset {
		return Errorf(ErrInvalid, "core", call, "Offset %d + Length %d must lie within Size %d", m.Offset, m.Length, m.Size)
	}
	return nil
}

// ExternalSemaphore is what another API or process needs to open a semaphore. Its owner
// closes it: see [Handle] for who that is.
type ExternalSemaphore struct {
	Handle     *Handle
	DeviceUUID UUID
	DriverUUID UUID // zero where the API does not tell it
}

// Close closes the handle. It does nothing if an importer has taken it, or if it was
// closed before.
func (x ExternalSemaphore) Close() error { return x.Handle.Close() }

// Duplicate returns x with a duplicate of its handle, which the caller closes. It fails
// as [Handle.Duplicate] does.
func (x ExternalSemaphore) Duplicate() (ExternalSemaphore, error) {
	h, err := x.Handle.Duplicate()
	if err != nil {
		return ExternalSemaphore{}, err
	}
	x.Handle = h
	return x, nil
}

// ExternalEvent is what another process needs to open an [IPCEvent]. Its owner closes it:
// see [Handle] for who that is.
type ExternalEvent struct {
	Handle     *Handle
	DeviceUUID UUID
	DriverUUID UUID // zero where the API does not tell it
}

// Close closes the handle. It does nothing if [IPCEventCreator.OpenIPCEvent] has taken it,
// or if it was closed before.
func (x ExternalEvent) Close() error { return x.Handle.Close() }

// Duplicate returns x with a duplicate of its handle, which the caller closes. It fails
// as [Handle.Duplicate] does.
func (x ExternalEvent) Duplicate() (ExternalEvent, error) {
	h, err := x.Handle.Duplicate()
	if err != nil {
		return ExternalEvent{}, err
	}
	x.Handle = h
	return x, nil
}
