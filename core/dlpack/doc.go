// Package dlpack exchanges tensors with other libraries without a copy, through the C
// structs of DLPack: DLManagedTensorVersioned (DLPack 1.x), the legacy DLManagedTensor
// (DLPack 0.x), and the function table DLPackExchangeAPI. It is the only package that
// reads structs of other libraries.
//
// # Exporting a tensor
//
// [Export] returns a struct in C memory that owns one reference to the tensor's memory.
// The struct belongs to the caller, who passes it to exactly one consumer or deletes it
// with [Delete]. The consumer calls the struct's deleter once, from any thread, when it no
// longer uses the memory. The exporter still owns the tensor and closes it. The memory is
// freed after both.
//
// The deleter is a C function. It takes no lock, never enters Go and never blocks: it puts
// the struct on a list. A goroutine of this package releases the references of the structs
// on the list within about a millisecond. [Flush] waits until it has. Structs are reused,
// and their memory is never returned to the system.
//
// # Importing a tensor
//
// [Import] validates a struct of another library and makes a [core.Tensor] of it. Import
// always takes ownership of the struct. If it fails, it has called the deleter. If it
// succeeds, the deleter is called when the last view of the tensor is closed and all work
// on the memory is done. A NULL deleter is not called. Import copies shape and strides, and
// does not read the struct again until it reads and calls the deleter.
//
// A [Description] is for functions that only look: it is what Import checks, without a
// tensor, and leaves the struct to the caller.
//
// Memory of any type of device can be imported, viewed and exported. Whoever asks for its
// elements gets core.ErrDevice if dlx has no way to them. [OnDevice] helps where the memory
// can be reached as that of another device.
//
// # Order
//
// The structs carry no event, so both sides must agree on the order of work. Export does
// not wait for work that still writes the tensor. Before a consumer on the host uses the
// memory, call [core.Tensor.WaitReady]. A consumer on a device needs the order that package
// stream establishes. Import expects that the producer has done the same.
//
// # Platforms
//
// Without cgo, and on Windows, the functions that need C return [core.ErrNotSupported] and
// take ownership of nothing.
package dlpack

import (
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/internal/abi"
)

// The structs of dlpack.h. Their values lie in C memory. To pass one to C, pass its address,
// uintptr(unsafe.Pointer(m)).
type (
	// ManagedTensorVersioned is DLManagedTensorVersioned, the struct of DLPack 1.x.
	ManagedTensorVersioned = abi.ManagedTensorVersioned
	// ManagedTensor is DLManagedTensor, the legacy struct of DLPack 0.x.
	ManagedTensor = abi.ManagedTensor
	// ExchangeAPI is DLPackExchangeAPI, the table of functions that a library
	// publishes as the capsule "dlpack_exchange_api".
	ExchangeAPI = abi.ExchangeAPI
)

// ImportOptions are the options of [Import], [ImportLegacy] and [Description.Read]. The zero value is the default.
type ImportOptions struct {
	// Size is the number of bytes at the data pointer, which DLPack does not carry; 0 and core.UnknownSize are
	// unknown. If it is known, Import returns core.ErrLayout for a tensor that reaches outside of these bytes.
	Size int64

	// OnDevice, if not zero, says that the memory is addressed as that of this device, such as [core.CPU] or a CUDA
	// device. The tensor is then on it, and can be read, copied and moved there. It is for types
	// of devices that say nothing about the address. An allocation of oneAPI may be one of the
	// host (kDLOneAPI; sycl::malloc_host), and memory that a library calls kDLVPI may be the
	// host's or CUDA's. Only the program knows which.
	//
	// Import returns core.ErrDevice if the struct has a type that says how its memory is reached,
	// such as kDLCPU or kDLVulkan, or if OnDevice is not on the host, CUDA or ROCm.
	OnDevice core.DeviceID
}

// fail returns an error of this package.
func fail(sentinel error, call, format string, args ...any) error {
	return core.Errorf(sentinel, "dlpack", call, format, args...)
}
