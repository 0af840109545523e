// Package dlpack passes tensors to other libraries and takes theirs, without a
// copy, through the C structs of DLPack: DLManagedTensorVersioned (1.x) and the
// legacy DLManagedTensor (0.x), and the table of functions DLPackExchangeAPI.
// Nothing outside of this package reads a foreign struct.
//
// # Giving a tensor away
//
// [Export] returns a struct in C memory that stands for one share of the tensor's
// memory. It belongs to the caller, who passes it on to exactly one consumer, or
// deletes it with [Delete]. The consumer calls its deleter once, when it is done
// with the memory, from any thread. The tensor itself stays the exporter's and is
// closed as ever; the memory lives until both are done.
//
// The deleter is a C function. It takes no lock, never enters Go and never
// blocks; it puts the struct on a list, which a goroutine of this package
// empties: within about a millisecond the share is given back. [Flush] waits for
// that. The structs are used again and their memory is never returned to the
// system, so it stays at what the program needed at most.
//
// # Taking a tensor
//
// [Import] validates a foreign struct and makes a [core.Tensor] of it. It takes
// the struct over in every case: after a failure its deleter was called, after a
// success it is called when the last view of the tensor is closed and the work on
// it is done. A NULL deleter is never called. Shape and strides are copied, the
// struct is not read again until then, and not touched after.
//
// # Order
//
// The structs carry no event. Export does not wait for work that still writes the
// tensor: a host consumer needs [core.Tensor.WaitReady] before, a device consumer
// the order that the package stream makes. Whoever hands out a struct to Import
// has done the same.
//
// # Platforms
//
// Without cgo, and on Windows, every function that needs C fails with
// [core.ErrNotSupported] and takes nothing over.
package dlpack

import (
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/internal/abi"
)

// The structs of dlpack.h. Values of these types lie in C memory; what is passed
// to C is their address, uintptr(unsafe.Pointer(m)).
type (
	// ManagedTensorVersioned is DLManagedTensorVersioned, the struct of DLPack 1.x.
	ManagedTensorVersioned = abi.ManagedTensorVersioned
	// ManagedTensor is DLManagedTensor, the legacy struct of DLPack 0.x.
	ManagedTensor = abi.ManagedTensor
	// ExchangeAPI is DLPackExchangeAPI, the table of functions that a library
	// publishes as the capsule "dlpack_exchange_api".
	ExchangeAPI = abi.ExchangeAPI
)

// Option changes what [Import] and [ImportLegacy] do.
type Option func(options) options

type options struct {
	size int64 // bytes from data on, or core.UnknownSize
}

// WithSize tells how many bytes lie at the data pointer, for callers who know it:
// a tensor that reaches outside of them is then refused with core.ErrLayout.
// DLPack itself does not carry the size.
func WithSize(bytes int64) Option {
	return func(o options) options {
		o.size = bytes
		return o
	}
}

// fail makes the errors of this package.
func fail(sentinel error, call, format string, args ...any) error {
	return core.Errorf(sentinel, "dlpack", call, format, args...)
}
