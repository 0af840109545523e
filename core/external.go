package core

// ExternalMemory describes exported memory. It is all that another API or another process
// needs to open it. The owner of Handle closes the ExternalMemory; see [Handle].
type ExternalMemory struct {
	Handle     *Handle // what another API or process imports
	Size       int64   // bytes of the whole allocation that Handle stands for
	Offset     int64   // bytes from the start of the allocation to the exported buffer
	Length     int64   // bytes of the exported buffer
	Dedicated  bool    // the allocation was made for one resource, and must be imported so (VkMemoryDedicatedAllocateInfo)
	MemoryType uint32  // for HandleOpaqueFD, the memoryTypeIndex that Vulkan must import the memory with; 1<<32 - 1 for memory that CUDA allocated
	DeviceUUID UUID    // of the device that exported it
	DriverUUID UUID    // zero if the API does not report it
}

// Close closes the handle. It does nothing if an importer has taken the payload of the
// handle, or if the handle was closed before.
func (m ExternalMemory) Close() error { return m.Handle.Close() }

// Duplicate returns a copy of m with a duplicate of its handle. The caller closes the
// result. Duplicate fails as [Handle.Duplicate] does.
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

// ExternalSemaphore describes an exported semaphore. It is all that another API or another
// process needs to open it. The owner of Handle closes the ExternalSemaphore; see [Handle].
type ExternalSemaphore struct {
	Handle     *Handle // what another API or process imports
	DeviceUUID UUID    // of the device that exported it
	DriverUUID UUID    // zero if the API does not report it
}

// Close closes the handle. It does nothing if an importer has taken the payload of the
// handle, or if the handle was closed before.
func (x ExternalSemaphore) Close() error { return x.Handle.Close() }

// Duplicate returns a copy of x with a duplicate of its handle. The caller closes the
// result. Duplicate fails as [Handle.Duplicate] does.
func (x ExternalSemaphore) Duplicate() (ExternalSemaphore, error) {
	h, err := x.Handle.Duplicate()
	if err != nil {
		return ExternalSemaphore{}, err
	}
	x.Handle = h
	return x, nil
}

// ExternalEvent describes an exported [IPCEvent]. It is all that another process needs to
// open it. The owner of Handle closes the ExternalEvent; see [Handle].
type ExternalEvent struct {
	Handle     *Handle // what another API or process imports
	DeviceUUID UUID    // of the device that exported it
	DriverUUID UUID    // zero if the API does not report it
}

// Close closes the handle. It does nothing if [IPCEventCreator.OpenIPCEvent] has taken the
// payload of the handle, or if the handle was closed before.
func (x ExternalEvent) Close() error { return x.Handle.Close() }

// Duplicate returns a copy of x with a duplicate of its handle. The caller closes the
// result. Duplicate fails as [Handle.Duplicate] does.
func (x ExternalEvent) Duplicate() (ExternalEvent, error) {
	h, err := x.Handle.Duplicate()
	if err != nil {
		return ExternalEvent{}, err
	}
	x.Handle = h
	return x, nil
}
