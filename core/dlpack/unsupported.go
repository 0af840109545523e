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
func Import(*ManagedTensorVersioned, ImportOptions) (*core.Tensor, error) {
	return nil, unsupported("Import")
}

// ImportLegacy returns ErrNotSupported: it needs cgo. The struct stays the caller's.
func ImportLegacy(*ManagedTensor, ImportOptions) (*core.Tensor, error) {
	return nil, unsupported("ImportLegacy")
}

// Description needs cgo; see Read.
type Description struct{}

// Read returns ErrNotSupported: it needs cgo.
func (*Description) Read(*ManagedTensorVersioned, ImportOptions) error { return unsupported("Read") }

// DType returns the zero DType.
func (*Description) DType() core.DType { return core.DType{} }

// DeviceID returns the zero DeviceID.
func (*Description) DeviceID() core.DeviceID { return core.DeviceID{} }

// Layout returns the zero Layout.
func (*Description) Layout() core.Layout { return core.Layout{} }

// Flags returns 0.
func (*Description) Flags() core.Flags { return 0 }

// Rank returns 0.
func (*Description) Rank() int { return 0 }

// PutDims returns false.
func (*Description) PutDims(*[8]int64) bool { return false }

// Data returns 0 and 0.
func (*Description) Data() (pointer uintptr, offset int64) { return 0, 0 }

// Elements returns ErrNotSupported: it needs cgo.
func Elements[T core.Element](*Description) ([]T, error) { return nil, unsupported("Elements") }

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
