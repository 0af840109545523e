//go:build !cgo || windows

package dlpack

import "github.com/dlx-go/dlx/core"

// unsupported is the answer of every function here.
func unsupported(call string) error {
	return fail(core.ErrNotSupported, call, "DLPack is an interface of C: build with CGO_ENABLED=1, on another system than Windows")
}

// Export needs cgo.
func Export(*core.Tensor) (*ManagedTensorVersioned, error) { return nil, unsupported("Export") }

// ExportCopied needs cgo.
func ExportCopied(*core.Tensor) (*ManagedTensorVersioned, error) {
	return nil, unsupported("ExportCopied")
}

// ExportLegacy needs cgo.
func ExportLegacy(*core.Tensor) (*ManagedTensor, error) { return nil, unsupported("ExportLegacy") }

// Import needs cgo. The struct stays the caller's.
func Import(*ManagedTensorVersioned, ...Option) (*core.Tensor, error) {
	return nil, unsupported("Import")
}

// ImportLegacy needs cgo. The struct stays the caller's.
func ImportLegacy(*ManagedTensor, ...Option) (*core.Tensor, error) {
	return nil, unsupported("ImportLegacy")
}

// Delete does nothing: without cgo there is nothing that it could be called with.
func Delete(*ManagedTensorVersioned) {}

// DeleteLegacy does nothing, like Delete.
func DeleteLegacy(*ManagedTensor) {}

// Flush does nothing, since nothing can be exported.
func Flush() {}

// Table returns nil: the functions of the table would be C.
func Table() *ExchangeAPI { return nil }

// Producer needs cgo; see [NewProducer].
type Producer struct{}

// NewProducer needs cgo.
func NewProducer(*ExchangeAPI) (Producer, error) { return Producer{}, unsupported("NewProducer") }

// Allocate needs cgo.
func (Producer) Allocate(core.DeviceID, core.DType, ...int64) (*core.Tensor, error) {
	return nil, unsupported("Allocate")
}

// CurrentWorkStream needs cgo.
func (Producer) CurrentWorkStream(core.DeviceID) (uintptr, error) {
	return 0, unsupported("CurrentWorkStream")
}
