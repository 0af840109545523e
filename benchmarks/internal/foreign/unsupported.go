//go:build !cgo || windows

package foreign

import (
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

// Available returns the reason why the C functions are not in this build.
func Available() error {
	return core.Errorf(core.ErrNotSupported, "foreign", "Available", "this measures calls of C: build with CGO_ENABLED=1, on another system than Windows")
}

// EmptyCall needs cgo and does nothing.
func EmptyCall() {}

// Consume needs cgo and does nothing.
func Consume(*dlpack.ManagedTensorVersioned) {}

// DeleteAll needs cgo and does nothing.
func DeleteAll([]*dlpack.ManagedTensorVersioned) {}

// Produce needs cgo and returns nil.
func Produce() *dlpack.ManagedTensorVersioned { return nil }

// Deleted is 0.
func Deleted() int64 { return 0 }

// MemcpyName says whose memcpy [Memcpy] is.
const MemcpyName = "Go copy"

// Memcpy is Go's copy where there is no C.
func Memcpy(dst, src []byte) { copy(dst, src) }
