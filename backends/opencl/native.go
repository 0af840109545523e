//go:build opencl && linux && cgo

package opencl

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// HandlesOf returns what is behind d, for who makes kernels and command queues of
// its context. It fails with ErrDevice for a device of another backend and with ErrClosed.
func HandlesOf(d core.Device) (Handles, error) {
	inner, err := deviceOf("HandlesOf", d)
	if err != nil {
		return Handles{}, err
	}
	if err := inner.CheckOpen("HandlesOf"); err != nil {
		return Handles{}, err
	}
	return Handles{uintptr(inner.platform), uintptr(inner.handle), uintptr(inner.context)}, nil
}

// Wrap opens a device over a cl_context that another library made, so that both
// use each other's cl_mem, cl_command_queue and cl_event. It retains the context
// until the caller closes the device. deviceID is one of the context's; the
// result's ID is that of [core.Backend.Devices]. It fails with ErrDevice if no
// platform lists the device or the context has not got it, and with ErrInvalid if
// either is 0 or the driver says that it is none. Whether an address that is no
// handle is found out depends on the driver: do not pass any.
func Wrap(context, deviceID uintptr) (core.Device, error) {
	const call = "Wrap"
	all, err := list()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(l location) bool { return uintptr(l.handle) == deviceID })
	if i < 0 {
		return nil, errorf(core.ErrDevice, call, "%#x is no cl_device_id that a platform lists; sub-devices are not supported", deviceID)
	}
	l := all[i]
	if err := l.checkObject(call, context); err != nil {
		return nil, err
	}
	c := driver.Context(context)
	devices, s := driver.Bytes(c, driver.ContextDevices)
	if err := check(s, "clGetContextInfo", "the devices of %#x", context); err != nil {
		return nil, err
	}
	const word = int(unsafe.Sizeof(deviceID))
	for ; len(devices) >= word; devices = devices[word:] {
		if binary.NativeEndian.Uint64(devices) != uint64(deviceID) {
			continue
		}
		if err := check(driver.RetainContext(c), "clRetainContext", "%#x", context); err != nil {
			return nil, err
		}
		return openDevice(l, c)
	}
	return nil, errorf(core.ErrDevice, call, "the context %#x has not got the device %#x", context, deviceID)
}

// MemOf returns the cl_mem that t stands on and where in it the first element
// lies, in bytes. The cl_mem stays the tensor's: retain it to keep it longer. It
// fails with ErrDevice if t does not lie on OpenCL, and with ErrClosed. For a tensor
// without memory it is 0.
func MemOf(t *core.Tensor) (mem uintptr, offset int64, err error) {
	if t == nil {
		return 0, 0, errorf(core.ErrInvalid, "MemOf", "the tensor is nil")
	}
	b, err := t.Buffer()
	if err != nil {
		return 0, 0, err
	}
	if t.ID().Type != core.DeviceOpenCL {
		return 0, 0, errorf(core.ErrDevice, "MemOf", "%v is no tensor of OpenCL", t)
	}
	return b.Memory().Handle, t.Offset(), nil
}

// SubBuffer returns a view of t's elements that stands on a cl_mem of its own, which
// begins with their first byte and ends with their last: for kernels that take no
// offset. The caller closes it. It keeps t's memory and shares its order, so that
// work on one waits for work on the other. It fails with ErrLayout if the first
// byte is no multiple of CL_DEVICE_MEM_BASE_ADDR_ALIGN in t's cl_mem or there are no
// elements, with ErrInvalid if that is a sub-buffer itself, of which OpenCL makes none, with
// ErrDevice if t belongs to no opened device of OpenCL, and with ErrClosed.
func SubBuffer(t *core.Tensor) (*core.Tensor, error) {
	const call = "SubBuffer"
	whole, offset, err := MemOf(t)
	if err != nil {
		return nil, err
	}
	d, err := deviceOf(call, t.Device())
	if err != nil {
		return nil, err
	}
	c, bits := strided.OfBits(t, t)
	r := c.ByteRange(bits)
	first, end := r.DstLow, r.DstHigh
	if end == first || first%d.baseAlign != 0 {
		return nil, errorf(core.ErrLayout, call, "the elements have %d bytes from byte %d of the cl_mem on: they must not be none, and begin at a multiple of CL_DEVICE_MEM_BASE_ADDR_ALIGN, %d bytes", end-first, first, d.baseAlign)
	}
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	if err := b.Retain(); err != nil {
		return nil, err
	}
	m, err := d.cut(driver.Mem(whole), first, end-first, b)
	if err != nil {
		b.Release()
		return nil, err
	}
	view, err := wrap(m, core.Spec{DType: t.DType(), Shape: t.Shape(), Strides: strides(t), Offset: offset - first, Flags: t.Flags() &^ core.FlagCopied})
	if err != nil {
		return nil, err
	}
	if own, err := view.Buffer(); err == nil { // nobody else can have closed it yet
		own.OrderWith(b, first-b.Memory().Offset)
	}
	return view, nil
}

func strides(t *core.Tensor) []int64 { return t.Layout().AppendStrides(nil) }

// cut makes a sub-buffer of size bytes memory of the device. On success it owns a reference of b.
func (d *device) cut(mem driver.Mem, first, size int64, b *core.Buffer) (core.Memory, error) {
	k, err := d.lookUp("SubBuffer", mem)
	if err != nil {
		return core.Memory{}, err
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen("SubBuffer"); err != nil {
		return core.Memory{}, err
	}
	sub, s := driver.CreateSubBuffer(mem, first, size)
	if err := check(s, "clCreateSubBuffer", "%d bytes from byte %d on", size, first); err != nil {
		return core.Memory{}, err
	}
	if k.host != 0 {
		k.host += uintptr(first)
	}
	if k.over != (span{}) {
		k.over = spanOf(k.over.low+uintptr(first), size)
	}
	return d.adopt(sub, 0, size, k, func() {
		driver.ReleaseMem(sub)
		b.Release()
	}), nil
}

// EventOf makes an event of a cl_event of another library, which streams of d can
// wait for on the device. It retains the cl_event until it is passed or the event
// is collected. Whoever enqueued the command flushes its queue, else nobody may ever
// see it done (OpenCL 3.0 API, Flush and Finish). It fails with ErrInvalid for what
// is no cl_event of d's context, as far as the API can tell; see [Wrap].
func EventOf(d core.Device, event uintptr) (core.Event, error) {
	const call = "EventOf"
	inner, err := deviceOf(call, d)
	if err != nil {
		return nil, err
	}
	if err := inner.CheckOpen(call); err != nil {
		return nil, err
	}
	if err := inner.checkObject(call, event); err != nil {
		return nil, err
	}
	raw := driver.Event(event)
	owner, s := driver.Number(raw, driver.EventContext)
	if err := check(s, "clGetEventInfo", "the context of %#x", event); err != nil {
		return nil, err
	}
	if driver.Context(owner) != inner.context {
		return nil, errorf(core.ErrInvalid, call, "%#x belongs to another cl_context: open the device by opencl.Wrap over that", event)
	}
	if err := check(driver.RetainEvent(raw), "clRetainEvent", "%#x", event); err != nil {
		return nil, err
	}
	return newForeignEvent(inner, raw), nil
}
