//go:build cgo && unix

package pjrt

import (
	"context"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
	xla "github.com/gomlx/go-xla/pjrt"
)

var liveViews = live.NewCounter("pjrt.View")

// View is a buffer of PJRT that shares the memory of a tensor. It keeps that memory open until Close.
type View struct {
	buffer *xla.Buffer

	mu     sync.Mutex
	tensor *core.Tensor // a share of the caller's; nil after Close
}

// Alignment is what PJRT demands of addresses in host memory, in bytes. Memory of package cpu has it, and Go slices
// often have not.
const Alignment = xla.BufferAlignment

// NewView makes a buffer of t on a client, which the caller closes. It copies nothing: the buffer shares the memory of t,
// and keeps it open. NewView blocks until the last write to t is done, or returns ctx's error. Programs must not write to t
// while an execution reads it. An execution to which the buffer is donated does not write to t, but go-xla then destroys
// the buffer; Close the view all the same.
//
// NewView returns the error of that write; core.ErrClosed if t is closed; core.ErrInvalid if an argument is nil;
// core.ErrLayout if t is not row-major (use Tensor.Contiguous), or if it lies on the host and is not aligned to
// Alignment (use Tensor.Clone, or allocate with package cpu); core.ErrDType if PJRT lacks the type; and core.ErrDevice
// if no device of the client has that memory.
func NewView(ctx context.Context, client *xla.Client, t *core.Tensor) (*View, error) {
	if client == nil || t == nil {
		return nil, core.Errorf(core.ErrInvalid, apiName, "NewView", "the client or the tensor is nil")
	}
	if !client.IsValid() {
		return nil, core.Errorf(core.ErrClosed, apiName, "NewView", "the client was destroyed")
	}
	dtype, ok := elementTypes[t.DType()]
	if !ok {
		return nil, core.Errorf(core.ErrDType, apiName, "NewView", "PJRT has no type for the elements of %v", t)
	}
	if !t.Layout().IsContiguous() {
		return nil, core.Errorf(core.ErrLayout, apiName, "NewView", "%v has the strides %v, and PJRT takes row-major tensors: call Contiguous", t, t.Layout().Strides())
	}
	device, err := deviceFor(client, t.DeviceID())
	if err != nil {
		return nil, err
	}
	if err := t.WaitReady(ctx); err != nil {
		return nil, err
	}
	share, err := t.Share()
	if err != nil {
		return nil, err
	}
	buffer, err := view(client, share, dtype, device)
	if err != nil {
		share.Close()
		return nil, err
	}
	liveViews.Add(1)
	return &View{buffer: buffer, tensor: share}, nil
}

func view(client *xla.Client, t *core.Tensor, dtype xlaType, device *xla.Device) (*xla.Buffer, error) {
	address, err := t.Address()
	if err != nil {
		return nil, err
	}
	if t.IsEmpty() {
		address = nothing()
	}
	if t.DeviceID().Type.HostAccessible() && address%Alignment != 0 {
		return nil, core.Errorf(core.ErrLayout, apiName, "PJRT_Client_CreateViewOfDeviceBuffer",
			"%v lies at %#x, and PJRT takes addresses that are multiples of %d: call Clone, or allocate with package cpu", t, address, Alignment)
	}
	shape := t.Shape()
	dims := make([]int, len(shape))
	for i, n := range shape {
		dims[i] = int(n)
	}
	memory := *(*unsafe.Pointer)(unsafe.Pointer(&address)) // not Go's, or pinned
	buffer, err := client.CreateViewOfDeviceBuffer(memory, dtype, dims, device)
	if err != nil {
		return nil, failed("PJRT_Client_CreateViewOfDeviceBuffer", err)
	}
	return buffer, nil
}

// empty holds an aligned address for tensors without elements.
var empty [2 * Alignment]byte

func nothing() uintptr {
	address := uintptr(unsafe.Pointer(&empty))
	return address + (Alignment-address%Alignment)%Alignment
}

// deviceFor returns the device of a client whose memory id is.
func deviceFor(client *xla.Client, id core.DeviceID) (*xla.Device, error) {
	for _, d := range client.AddressableDevices() {
		if at, err := place(client.Platform(), client.Platform() == "cpu", d.LocalHardwareID()); err == nil && at == id {
			return d, nil
		}
	}
	return nil, core.Errorf(core.ErrDevice, apiName, "NewView", "memory of %v is on no device of the client, whose platform is %q: use exchange.To", id, client.Platform())
}

// Buffer returns the buffer, which belongs to the view: the caller must not destroy it, and must not use it after Close.
func (v *View) Buffer() *xla.Buffer { return v.buffer }

// Close destroys the buffer and lets go of the tensor. No execution may use the buffer any more. Close returns
// core.ErrInvalid if PJRT refuses; the memory then stays open, because PJRT may still use it. Closing a closed view
// does nothing.
func (v *View) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.tensor == nil {
		return nil
	}
	if err := v.buffer.Destroy(); err != nil {
		return failed("PJRT_Buffer_Destroy", err)
	}
	v.tensor.Close()
	v.tensor = nil
	liveViews.Add(-1)
	return nil
}
