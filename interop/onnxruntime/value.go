//go:build cgo && unix

package onnxruntime

import (
	"context"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
	ort "github.com/yalue/onnxruntime_go"
)

// Value is a tensor of ONNX Runtime that shares the memory of a tensor of dlx. It keeps that memory open until Destroy.
// Pass it wherever onnxruntime_go takes a Value.
type Value struct {
	// Memory on the host is a CustomDataTensor. onnxruntime_go makes none on a device, so that there the embedded value
	// only answers for the type of the elements, and handle is the value itself.
	ort.Value
	handle unsafe.Pointer

	lib    *Library
	tensor *core.Tensor // a share of the caller's

	mu        sync.Mutex
	destroyed bool
}

var _ ort.Value = (*Value)(nil)

// Input makes a value of t that a session reads. It copies nothing: the value shares the memory of t, and keeps it open
// until the caller destroys the value. Input blocks until the last write to t is done, or returns ctx's error.
//
// Input returns the error of that write; core.ErrClosed if t or the library is closed; core.ErrInvalid if t is nil;
// core.ErrLayout if t is not row-major, as ONNX Runtime has no strides: use Tensor.Contiguous; core.ErrDType if ONNX
// Runtime lacks the type; and core.ErrNotSupported for memory of other APIs than the host's, CUDA's and ROCm's.
func (l *Library) Input(ctx context.Context, t *core.Tensor) (*Value, error) {
	if t != nil {
		if err := t.WaitReady(ctx); err != nil {
			return nil, err
		}
	}
	return l.value(t)
}

// Output makes a value of t that a session overwrites. It blocks until all work on t is done, and fails as Input does,
// or with core.ErrReadOnly if t is read-only. An error of an earlier write to t is forgotten.
func (l *Library) Output(ctx context.Context, t *core.Tensor) (*Value, error) {
	if err := writable(t); err != nil {
		return nil, err
	}
	v, err := l.value(t)
	if err != nil {
		return nil, err
	}
	if err := stream.Do(ctx, []*core.Tensor{t}, nil, func() error { return nil }); err != nil {
		_ = v.Destroy() // always nil
		return nil, err
	}
	return v, nil
}

func writable(t *core.Tensor) error {
	if t != nil && t.ReadOnly() {
		return core.Errorf(core.ErrReadOnly, apiName, "Output", "%v is read-only; a session would write to it", t)
	}
	return nil
}

// value makes a value of t without waiting.
func (l *Library) value(t *core.Tensor) (v *Value, err error) {
	if t == nil {
		return nil, core.Errorf(core.ErrInvalid, apiName, "Value", "the tensor is nil")
	}
	dtype, ok := elementTypes[t.DType()]
	if !ok || t.Padded() {
		return nil, core.Errorf(core.ErrDType, apiName, "Value", "ONNX Runtime has no type for the elements of %v", t)
	}
	if !t.Layout().IsContiguous() {
		return nil, core.Errorf(core.ErrLayout, apiName, "Value",
			"%v has the strides %v, and ONNX Runtime takes row-major tensors: call Contiguous", t, t.Layout().Strides())
	}
	if err := l.retain(); err != nil {
		return nil, err
	}
	share, err := t.Share()
	if err != nil {
		l.release()
		return nil, err
	}
	v = &Value{lib: l, tensor: share}
	if err := v.build(dtype); err != nil {
		share.Close()
		l.release()
		return nil, err
	}
	liveValues.Add(1)
	return v, nil
}

// build makes the value of ONNX Runtime.
func (v *Value) build(dtype ort.TensorElementDataType) error {
	info, err := v.lib.memoryInfo(v.tensor.DeviceID()) // refuses other APIs
	if err != nil {
		return err
	}
	address, err := v.tensor.Address()
	if err != nil {
		return err
	}
	shape, bytes := v.tensor.Shape(), v.tensor.NumBytes()
	if v.tensor.DeviceID().Type == core.DeviceCPU && bytes > 0 && len(shape) > 0 {
		memory := unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), bytes) // not Go's, or pinned; v.tensor keeps it
		v.Value, err = ort.NewCustomDataTensor(shape, memory, dtype)
		if err != nil {
			return &core.Error{Backend: apiName, Call: "NewCustomDataTensor", Detail: err.Error(), Err: core.ErrInvalid}
		}
		return nil
	}
	// Also for tensors without axes or elements, which NewCustomDataTensor refuses.
	if v.Value, err = v.lib.kind(dtype); err != nil {
		return err
	}
	if address == 0 {
		address = uintptr(unsafe.Pointer(&nothing)) // of no bytes
	}
	v.handle, err = v.lib.table.tensorOn(info, address, bytes, shape, dtype)
	return err
}

// nothing has the address of tensors without elements, since ONNX Runtime refuses the address 0.
var nothing [16]byte

// GetInternals returns what onnxruntime_go knows the value by.
func (v *Value) GetInternals() *ort.ValueInternalData {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.destroyed || v.lib == nil {
		return new(ort.ValueInternalData)
	}
	if v.handle == nil {
		return v.Value.GetInternals()
	}
	return internals(v.handle)
}

// GetShape returns a copy of the extents.
func (v *Value) GetShape() ort.Shape { return v.tensor.Shape() }

// ZeroContents clears the elements, if the host can write them; elsewhere it does nothing.
func (v *Value) ZeroContents() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.destroyed && v.lib != nil && v.handle == nil && !v.tensor.ReadOnly() {
		v.Value.ZeroContents()
	}
}

// Tensor returns a tensor that shares the memory of the value. The caller closes it. It returns core.ErrClosed after
// Destroy.
func (v *Value) Tensor() (*core.Tensor, error) { return v.tensor.Share() }

// Destroy destroys the value, and lets go of the tensor. No session or binding may use the value afterwards. It always
// returns nil; destroying a destroyed value does nothing.
func (v *Value) Destroy() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.destroyed || v.lib == nil {
		return nil
	}
	v.destroyed = true
	if v.handle != nil {
		v.lib.table.releaseValue(v.handle)
	} else {
		_ = v.Value.Destroy() // always nil
	}
	v.tensor.Close()
	v.lib.release()
	liveValues.Add(-1)
	return nil
}
