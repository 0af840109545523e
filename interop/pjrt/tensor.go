//go:build cgo && unix

package pjrt

import (
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
	"github.com/dlx-go/dlx/stream"
	xla "github.com/gomlx/go-xla/pjrt"
)

var liveBuffers = live.NewCounter("pjrt.Buffer")

// Tensor makes a tensor of a buffer. It copies nothing. If it succeeds, the tensor owns the buffer: the buffer is
// destroyed when the last view of the tensor is closed, and the caller must not destroy it or donate it. If it fails,
// the caller still owns the buffer. The tensor is read-only, since PJRT takes the contents of a buffer for constant.
// Close all tensors before the client is destroyed.
//
// If the buffer is still being written, the event of that write becomes the event of the tensor (Tensor.Ready).
//
// Tensor returns core.ErrInvalid if b is nil, core.ErrClosed if b or its client was destroyed, core.ErrDType for types
// that dlx lacks or that are smaller than a byte, core.ErrLayout if strides cannot express the layout, core.ErrVersion
// if the plugin lacks functions, and core.ErrNotSupported if the memory is none of the host's, CUDA's and ROCm's.
func Tensor(b *xla.Buffer) (*core.Tensor, error) {
	if b == nil {
		return nil, core.Errorf(core.ErrInvalid, apiName, "Tensor", "the buffer is nil")
	}
	if err := b.Check(); err != nil || !b.Client().IsValid() {
		return nil, core.Errorf(core.ErrClosed, apiName, "Tensor", "the buffer or its client was destroyed")
	}
	p, err := pluginOf(b.Client())
	if err != nil {
		return nil, err
	}
	return tensorOf(p, b)
}

// tensorOf is Tensor for a buffer that was checked.
func tensorOf(p plugin, b *xla.Buffer) (*core.Tensor, error) {
	handle, err := handleOf(b)
	if err != nil {
		return nil, err
	}
	if err := p.hold(handle); err != nil { // before its address is read
		return nil, err
	}
	t, err := wrap(p, b, handle)
	if err != nil {
		_ = p.drop(handle) // err says more
	}
	return t, err
}

// wrap makes a tensor of a buffer whose memory is held.
func wrap(p plugin, b *xla.Buffer, handle unsafe.Pointer) (*core.Tensor, error) {
	memory, spec, err := describe(p, b, handle)
	if err != nil {
		return nil, err
	}
	event, err := unfinished(p, handle)
	if err != nil {
		return nil, err
	}
	memory.Owner = &owner{plugin: p, buffer: b, client: b.Client(), handle: handle}
	t, err := core.Wrap(memory, spec)
	if err != nil {
		if event != nil {
			_ = p.destroyEvent(event) // err says more
		}
		return nil, err
	}
	liveBuffers.Add(1)
	if event != nil {
		order(p, t, event)
	}
	return t, nil
}

// describe returns the memory of a buffer, and how its elements lie there.
func describe(p plugin, b *xla.Buffer, handle unsafe.Pointer) (m core.Memory, s core.Spec, err error) {
	dtype, err := b.DType()
	if err != nil {
		return m, s, failed("PJRT_Buffer_ElementType", err)
	}
	ours, ok := dtypes[dtype]
	if !ok {
		return m, s, core.Errorf(core.ErrDType, apiName, "PJRT_Buffer_ElementType", "elements of type %v", dtype)
	}
	dims, err := b.Dimensions()
	if err != nil {
		return m, s, failed("PJRT_Buffer_Dimensions", err)
	}
	if len(dims) > core.MaxRank {
		return m, s, core.Errorf(core.ErrLayout, apiName, "PJRT_Buffer_Dimensions", "%d axes; at most %d are supported", len(dims), core.MaxRank)
	}
	s = core.Spec{DType: ours, Shape: make([]int64, len(dims)), Flags: core.FlagReadOnly}
	for i, n := range dims {
		s.Shape[i] = int64(n)
	}
	itemSize, _ := ours.ItemSize() // whole bytes, by the table
	if s.Strides, err = p.strides(handle, s.Shape, itemSize); err != nil {
		return m, s, err
	}
	size, err := p.size(handle)
	if err != nil {
		return m, s, err
	}
	const most = 1<<63 - 1
	if size > most {
		return m, s, core.Errorf(core.ErrLayout, apiName, "PJRT_Buffer_OnDeviceSizeInBytes", "%d bytes", size)
	}
	onHost, err := p.onHost(handle)
	if err != nil {
		return m, s, err
	}
	device, err := b.Device()
	if err != nil {
		return m, s, failed("PJRT_Buffer_Device", err)
	}
	if m.ID, err = place(b.Client().Platform(), onHost, device.LocalHardwareID()); err != nil {
		return m, s, err
	}
	address, err := b.UnsafePointer()
	if err != nil {
		return m, s, failed("PJRT_Buffer_UnsafePointer", err)
	}
	m.Handle, m.Size = uintptr(address), int64(size)
	return m, s, nil
}

// failed makes an error of one of go-xla, which has only a text.
func failed(call string, err error) error {
	return &core.Error{Backend: apiName, Call: call, Detail: err.Error(), Err: core.ErrInvalid}
}

// unfinished returns the event of a buffer that is still being written, or nil. It returns the error of a write that has
// failed.
func unfinished(p plugin, handle unsafe.Pointer) (unsafe.Pointer, error) {
	event, err := p.readyEvent(handle)
	if err != nil {
		return nil, err
	}
	ready, err := p.isReady(event)
	if err == nil && !ready {
		return event, nil
	}
	if err == nil {
		err = p.await(event) // returns the error of the work at once
	}
	_ = p.destroyEvent(event) // err says more
	return nil, err
}

// order records on t the write that event stands for, and destroys event when it is done.
func order(p plugin, t *core.Tensor, event unsafe.Pointer) {
	written := stream.NewEvent()
	if buffer, err := t.Buffer(); err == nil { // t is open
		buffer.Wrote(written) // the buffer is not freed before it is done, so that the plugin stays until then
	}
	go func() {
		err := p.await(event)
		_ = p.destroyEvent(event) // err says more
		written.Complete(err)
	}()
}

// owner destroys the buffer of a tensor. It keeps the client from the garbage collector.
type owner struct {
	plugin plugin
	buffer *xla.Buffer
	client *xla.Client
	handle unsafe.Pointer
}

// Free implements core.Owner.
func (o *owner) Free() {
	if o.client.IsValid() && o.buffer.Check() == nil { // otherwise PJRT has freed it
		_ = o.plugin.drop(o.handle)
	}
	_ = o.buffer.Destroy()
	liveBuffers.Add(-1)
}
