//go:build !cgo || windows

package dlpack

import "github.com/dlx-go/dlx/core"

// unsupported returns the error of the functions in this file.
func unsupported(call string) error {
	return fail(core.ErrNotSupported, call, "DLPack is a C interface: build with CGO_ENABLED=1, on a system other than Windows")
}

// Export returns ErrNotSupported: it needs cgo.
func Export(*core.Tensor) (*ManagedTensorVersioned, error) { return nil, unsupported("Export") }

// ExportCopied returns ErrNotSupported: it needs cgo.
func ExportCopied(*core.Tensor) (*ManagedTensorVersioned, error) {
	return nil, unsupported("ExportCopied")
}

// ExportLegacy returns ErrNotSupported: it needs cgo.
func ExportLegacy(*core.Tensor) (*ManagedTensor, error) { return nil, unsupported("ExportLegacy") }

// Import returns ErrNotSupported: it needs cgo. The struct stays the caller's.
func Import(*ManagedTensorVersioned, ...Option) (*core.Tensor, error) {
	return nil, unsupported("Import")
}

// ImportLegacy returns ErrNotSupported: it needs cgo. The struct stays the caller's.
func ImportLegacy(*ManagedTensor, ...Option) (*core.Tensor, error) {
	return nil, unsupported("ImportLegacy")
}

// Delete does nothing: without cgo there is no struct to delete.
func Delete(*ManagedTensorVersioned) {}

// DeleteLegacy does nothing, like Delete.
func DeleteLegacy(*ManagedTensor) {}

// Flush does nothing: without cgo there are no exports.
func Flush() {}

// Table returns nil: the functions of the table need C.
func Table() *ExchangeAPI { return nil }

// Producer needs cgo; see [NewProducer].
type Producer struct{}

// NewProducer returns ErrNotSupported: it needs cgo.
func NewProducer(*ExchangeAPI) (Producer, error) { return Producer{}, unsupported("NewProducer") }

// Allocate returns ErrNotSupported: it needs cgo.
func (Producer) Allocate(core.DeviceID, core.DType, ...int64) (*core.Tensor, error) {
	return nil, unsupported("Allocate")
}

// CurrentWorkStream returns ErrNotSupported: it needs cgo.
func (Producer) CurrentWorkStream(core.DeviceID) (uintptr, error) {
	return 0, unsupported("CurrentWorkStream")
}
