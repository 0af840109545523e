//go:build cgo

package arrow

// #include <stdlib.h>
//
// // A release function is called only for an array that was moved.
// static void call_release(void *release, void *array) {
//   if (release) ((void (*)(void *))release)(array);
// }
import "C"

import (
	"context"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/cdata"
	"github.com/dlx-go/dlx/core"
)

// ImportDevice makes a tensor from a struct ArrowDeviceArray and a struct ArrowSchema, without a copy of the elements.
// The tensor may only be read. The array is one of numbers, of lists of fixed size, or of arrow.fixed_shape_tensor,
// with or without Register.
//
// On success ImportDevice takes ownership of the array: its release function is called when the tensor and its views
// are closed and all work on the memory is done, from any goroutine, and the struct is marked as released. On failure
// the array is unchanged, and the caller still owns it. The schema is released in both cases.
//
// If the struct has an event, the tensor becomes ready after it; see ImportOptions.Stream. ImportDevice returns
//
//   - core.ErrInvalid if a pointer is nil, there are nulls, or fields contradict each other or the schema;
//   - core.ErrClosed if the array or its child was released;
//   - core.ErrVersion if a reserved field is used;
//   - core.ErrDType if the elements are no numbers;
//   - core.ErrLayout if a shape is malformed, or lists have no elements;
//   - core.ErrDevice if the device is not the one in the options;
//   - core.ErrNotSupported if the memory has no addresses, or nothing can wait for the event.
//
// The pointers in the structs must be valid: nobody can check that.
func ImportDevice(ctx context.Context, array, schema unsafe.Pointer, o ImportOptions) (*core.Tensor, error) {
	const call = "ImportDevice"
	if schema == nil {
		return nil, isNil(call)
	}
	dtype, err := importType(call, (*cdata.CArrowSchema)(schema))
	if err != nil {
		return nil, err
	}
	if array == nil {
		return nil, isNil(call)
	}
	in := *(*cDeviceArray)(array)
	spec, data, size, err := in.read(call, dtype)
	if err != nil {
		return nil, err
	}
	id, device, err := in.device(call, o)
	if err != nil {
		return nil, err
	}
	ready, err := in.waitFor(call, o.Stream)
	if err != nil {
		return nil, err
	}

	moved := (*cArray)(C.malloc(C.size_t(unsafe.Sizeof(in.array))))
	*moved = in.array
	owner := core.FreeFunc(func() {
		C.call_release(pointer(moved.release), unsafe.Pointer(moved))
		C.free(unsafe.Pointer(moved))
	})
	m := core.Memory{ID: id, Handle: data, Size: size, Owner: owner}
	if importer, ok := core.As[core.PointerImporter](device); ok && size > 0 {
		if m, err = importer.ImportPointer(data, size, owner); err != nil {
			C.free(unsafe.Pointer(moved))
			return nil, named(call, err)
		}
	}
	t, err := core.Wrap(m, spec)
	if err != nil {
		moved.release = 0 // the caller keeps the array
		m.Free()
		return nil, named(call, err)
	}
	(*cDeviceArray)(array).array.release = 0
	if ready != nil {
		b, err := t.Buffer()
		if err != nil {
			t.Close()
			return nil, named(call, err)
		}
		b.Wrote(ready)
	}
	return t, nil
}

// importType reads and releases a schema.
func importType(call string, schema *cdata.CArrowSchema) (t arrow.DataType, err error) {
	defer func() { // arrow-go panics at some malformed types
		if r := recover(); r != nil {
			t, err = nil, core.Errorf(core.ErrInvalid, backend, call, "the schema cannot be read: %v", r)
		}
	}()
	field, err := cdata.ImportCArrowField(schema)
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "the schema cannot be read: %v", err)
	}
	if name, ok := field.Metadata.GetValue("ARROW:extension:name"); ok && name == fixedShapeName {
		if _, known := field.Type.(*FixedShapeType); !known {
			parameters, _ := field.Metadata.GetValue("ARROW:extension:metadata")
			return (&FixedShapeType{}).Deserialize(field.Type, parameters)
		}
	}
	return field.Type, nil
}

// read checks the array against its type. It returns how a tensor describes it, and its memory.
func (d *cDeviceArray) read(call string, t arrow.DataType) (s core.Spec, data uintptr, size int64, err error) {
	bad := func(format string, args ...any) (core.Spec, uintptr, int64, error) {
		return core.Spec{}, 0, 0, core.Errorf(core.ErrInvalid, backend, call, format, args...)
	}
	a := d.array
	switch {
	case a.release == 0:
		return core.Spec{}, 0, 0, core.Errorf(core.ErrClosed, backend, call, "the array was released")
	case d.reserved != [3]int64{}:
		return core.Spec{}, 0, 0, core.Errorf(core.ErrVersion, backend, call, "reserved fields are %v, not 0", d.reserved)
	}
	fixed, isFixed := t.(*FixedShapeType)
	list, isList := t.(*arrow.FixedSizeListType)
	if isList {
		if fixed, err = NewFixedShapeType(list.Elem(), []int64{int64(list.Len())}, nil, nil); err != nil {
			return core.Spec{}, 0, 0, err
		}
	}
	first, length := a.offset, a.length
	values := t
	if isFixed || isList {
		if err := a.check(call, 1, 1); err != nil {
			return core.Spec{}, 0, 0, err
		}
		n := int64(fixed.size())
		if first > math.MaxInt64/n-length {
			return bad("offset %d and length %d are too large", first, length)
		}
		if s.Shape, s.Strides, err = fixed.layout(call, length); err != nil {
			return core.Spec{}, 0, 0, err
		}
		children := (*uintptr)(pointer(a.children))
		if children == nil || *children == 0 {
			return bad("the list has no child")
		}
		child := *(*cArray)(pointer(*children))
		if child.release == 0 {
			return core.Spec{}, 0, 0, core.Errorf(core.ErrClosed, backend, call, "the child was released, or moved out of the list")
		}
		if child.length < (first+length)*n {
			return bad("%d elements are fewer than those of %d lists of %d", child.length, first+length, n)
		}
		if child.offset > math.MaxInt64-first*n {
			return bad("offset %d is too large", child.offset)
		}
		first, length, values, a = child.offset+first*n, length*n, fixed.ValueType(), child
	} else {
		s.Shape = []int64{length}
	}
	if s.DType, err = fromArrow(call, values); err != nil {
		return core.Spec{}, 0, 0, err
	}
	if err := a.check(call, 2, 0); err != nil {
		return core.Spec{}, 0, 0, err
	}
	width := itemSize(s.DType)
	if first > math.MaxInt64/width-length {
		return bad("offset %d and length %d are too large", first, length)
	}
	data = *(*uintptr)(pointer(a.buffers + unsafe.Sizeof(data)))
	s.Offset, s.Flags, size = first*width, core.FlagReadOnly, (first+length)*width
	if data == 0 {
		if length != 0 {
			return bad("the buffer is NULL, but there are %d elements", length)
		}
		s.Offset, size = 0, 0
	}
	return s, data, size, nil
}

// check checks the fields of an array. Its first buffer says which elements are null, and must not be needed.
func (a *cArray) check(call string, buffers, children int64) error {
	bad := func(format string, args ...any) error {
		return core.Errorf(core.ErrInvalid, backend, call, format, args...)
	}
	switch {
	case a.length < 0 || a.offset < 0:
		return bad("length %d or offset %d is negative", a.length, a.offset)
	case a.buffersLen != buffers || a.childrenLen != children || a.dictionary != 0:
		return bad("the array has %d buffers, not %d, %d children, not %d, or a dictionary", a.buffersLen, buffers, a.childrenLen, children)
	case a.buffers == 0:
		return bad("the list of buffers is NULL")
	case a.nullCount == 0, a.nullCount == -1 && *(*uintptr)(pointer(a.buffers)) == 0:
		return nil
	case a.nullCount == -1:
		return bad("it is not known which elements are null: count them first")
	}
	return bad("%d elements are null, which a tensor cannot express: fill them first", a.nullCount)
}

// device returns the device of the memory, and the opened one of the options.
func (d *cDeviceArray) device(call string, o ImportOptions) (core.DeviceID, core.Device, error) {
	t := core.DeviceType(d.deviceType)
	if !hasAddresses(t) {
		return core.DeviceID{}, nil, badDevice(call, t)
	}
	id := core.DeviceID{Type: t}
	if !t.HostAccessible() { // other memory has no index in dlx
		if d.deviceID < 0 || d.deviceID > math.MaxInt32 {
			return core.DeviceID{}, nil, core.Errorf(core.ErrDevice, backend, call, "device_id %d is no number of a device", d.deviceID)
		}
		id.Index = int32(d.deviceID)
	}
	device := o.Device
	if device == nil && o.Stream != nil {
		device = o.Stream.Device()
	}
	if device != nil {
		own := device.ID()
		if own.Type.BackendName() != t.BackendName() || own.Type == t && own.Index != id.Index {
			return core.DeviceID{}, nil, core.Errorf(core.ErrDevice, backend, call, "the memory is on %v, the options name %v", id, own)
		}
	}
	return id, device, nil
}

// waitFor returns an event of s that is done after the event of the struct; nil if there is none.
func (d *cDeviceArray) waitFor(call string, s core.Stream) (core.Event, error) {
	if d.syncEvent == 0 {
		return nil, nil
	}
	waiter, ok := s.(NativeWaiter)
	if !ok || !ofAPI(s, core.DeviceType(d.deviceType)) { // another API would take the pointer for an event of its own
		return nil, core.Errorf(core.ErrNotSupported, backend, call, "the memory is ready after an event of %v: pass a stream of that device that waits for such events", core.DeviceType(d.deviceType))
	}
	if err := waiter.WaitNative(*(*uintptr)(pointer(d.syncEvent))); err != nil {
		return nil, named(call, err)
	}
	e, err := waiter.Record()
	if err != nil {
		return nil, named(call, err)
	}
	return e, nil
}
