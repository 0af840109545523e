package backendkit

import (
	"math"

	"github.com/dlx-go/dlx/core"
)

// NewHandle returns a handle that owns number: a descriptor, a Win32 handle or a Mach port,
// as the type t says. If NewHandle fails, the caller still owns number. NewHandle returns
// core.ErrInvalid if handles of type t have no number, or if number is not open. It returns
// core.ErrNotSupported for types that dlx cannot use on this system; at present, dlx can use
// descriptors on POSIX systems.
func NewHandle(t core.HandleType, number uintptr) (*core.Handle, error) {
	return privateCore.NewHandle(t, number)
}

// NewIPCHandle returns a handle of type core.HandleIPC with a copy of payload, which drivers of
// the vendor v can import. It returns core.ErrInvalid if v is not known, or payload is empty or
// longer than 256 bytes.
func NewIPCHandle(v core.Vendor, payload []byte) (*core.Handle, error) {
	return privateCore.NewIPCHandle(v, payload)
}

// NoMemoryType is the MemoryType of [core.ExternalMemory] for memory that CUDA allocated and not Vulkan. Vulkan may
// import such memory with any memory type that suits its buffer. CUDA opens it with
// cuMemImportFromShareableHandle. Its DriverUUID is zero, because CUDA does not report one.
const NoMemoryType uint32 = math.MaxUint32
