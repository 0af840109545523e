//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/core"
)

// Handles are the OpenCL objects of a device. They belong to the device.
type Handles struct {
	Platform uintptr // cl_platform_id
	Device   uintptr // cl_device_id
	Context  uintptr // cl_context
}

// HandlesOf returns the OpenCL objects of d. It fails with core.ErrDevice for a device of another backend, and
// with core.ErrClosed for a closed one.
func (a API) HandlesOf(d core.Device) (Handles, error) {
	inner, err := a.deviceOf("HandlesOf", d)
	if err != nil {
		return Handles{}, err
	}
	if err := inner.IsOpen("HandlesOf"); err != nil {
		return Handles{}, err
	}
	return Handles{uintptr(inner.platform), uintptr(inner.handle), uintptr(inner.context)}, nil
}

// Wrap opens a device over a cl_context of another library, which it retains until the device is closed: see
// the functions of this name in the packages of the backends.
func (a API) Wrap(context, deviceID uintptr) (core.Device, error) {
	l, c, err := a.foreignContext("Wrap", context, deviceID)
	if err != nil {
		return nil, err
	}
	return openDevice(l, c)
}

// foreignContext returns the place of a cl_device_id and a new reference to a cl_context that has it.
func (a API) foreignContext(call string, context, deviceID uintptr) (location, driver.Context, error) {
	l, err := a.find(call, deviceID)
	if err != nil {
		return l, 0, err
	}
	if err := l.checkObject(call, context); err != nil {
		return l, 0, err
	}
	c := driver.Context(context)
	devices, s := driver.Bytes(c, driver.ContextDevices)
	if err := a.check(s, "clGetContextInfo", "the devices of %#x", context); err != nil {
		return l, 0, err
	}
	const word = int(unsafe.Sizeof(deviceID))
	for ; len(devices) >= word; devices = devices[word:] {
		if binary.NativeEndian.Uint64(devices) == uint64(deviceID) {
			return l, c, a.check(driver.RetainContext(c), "clRetainContext", "%#x", context)
		}
	}
	return l, 0, a.errorf(core.ErrDevice, call, "the context %#x does not have the device %#x", context, deviceID)
}

// find returns the place of a cl_device_id.
func (a API) find(call string, deviceID uintptr) (location, error) {
	all, err := list(a)
	if err != nil {
		return location{}, err
	}
	i := slices.IndexFunc(all, func(l location) bool { return uintptr(l.handle) == deviceID })
	if i < 0 {
		return location{}, a.errorf(core.ErrDevice, call, "%#x is not a cl_device_id that a platform lists; sub-devices are not supported", deviceID)
	}
	return all[i], nil
}

// MemOf returns the cl_mem of t, and the offset of the first element in it, in bytes: see opencl.MemOf.
func MemOf(t *core.Tensor) (mem uintptr, offset int64, err error) {
	if t == nil {
		return 0, 0, OpenCL.errorf(core.ErrInvalid, "MemOf", "the tensor is nil")
	}
	b, err := t.Buffer()
	if err != nil {
		return 0, 0, err
	}
	if t.DeviceID().Type != core.DeviceOpenCL {
		return 0, 0, OpenCL.errorf(core.ErrDevice, "MemOf", "%v is not a tensor of OpenCL", t)
	}
	return b.Memory().Handle, t.Offset(), nil
}

// SubBuffer returns a view of t on a cl_mem of its own: see opencl.SubBuffer.
func SubBuffer(t *core.Tensor) (*core.Tensor, error) {
	const call = "SubBuffer"
	whole, offset, err := MemOf(t)
	if err != nil {
		return nil, err
	}
	d, err := OpenCL.deviceOf(call, t.Device())
	if err != nil {
		return nil, err
	}
	c, bits := copyplan.OfBits(t, t)
	r := c.ByteRange(bits)
	first, end := r.DstLow, r.DstHigh
	if end == first || first%d.baseAlign != 0 {
		return nil, d.errorf(core.ErrLayout, call, "the elements have %d bytes and begin at byte %d of the cl_mem: there must be elements, and they must begin at a multiple of CL_DEVICE_MEM_BASE_ADDR_ALIGN, %d bytes", end-first, first, d.baseAlign)
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
	if own, err := view.Buffer(); err == nil { // no other code can have closed it yet
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
	if err := d.check(s, "clCreateSubBuffer", "%d bytes from byte %d on", size, first); err != nil {
		return core.Memory{}, err
	}
	k.after = size
	if k.host != 0 {
		k.host += uintptr(first)
	}
	if k.over != (span{}) {
		k.over = spanOf(k.over.low+uintptr(first), size)
	}
	return d.newMemory(sub, 0, size, k, func() {
		driver.ReleaseMem(sub)
		b.Release()
	}), nil
}

// ImportEvent makes an event of a cl_event of another library, which it retains: see the functions of this name in
// the packages of the backends.
func (a API) ImportEvent(d core.Device, event uintptr) (core.Event, error) {
	const call = "ImportEvent"
	inner, err := a.deviceOf(call, d)
	if err != nil {
		return nil, err
	}
	if err := inner.Hold(call); err != nil {
		return nil, err
	}
	defer inner.Drop()
	if err := inner.checkObject(call, event); err != nil {
		return nil, err
	}
	raw := driver.Event(event)
	owner, s := driver.Number(raw, driver.EventContext)
	if err := inner.check(s, "clGetEventInfo", "the context of %#x", event); err != nil {
		return nil, err
	}
	if driver.Context(owner) != inner.context {
		return nil, inner.errorf(core.ErrInvalid, call, "%#x belongs to another cl_context: open the device by Wrap over that", event)
	}
	if err := inner.check(driver.RetainEvent(raw), "clRetainEvent", "%#x", event); err != nil {
		return nil, err
	}
	return newForeignEvent(inner, raw), nil
}
