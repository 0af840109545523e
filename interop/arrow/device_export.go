//go:build cgo

package arrow

// #include <stdlib.h>
import "C"

import (
	"context"
	"errors"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/cdata"
	"github.com/dlx-go/dlx/core"
)

// ExportDevice fills a struct ArrowDeviceArray and a struct ArrowSchema with a tensor, without a copy. The caller
// passes pointers to the structs, in C's memory. Nothing in them is read. A tensor with one axis becomes an array of
// numbers, another one an array of arrow.fixed_shape_tensor; see ToArray and ToFixedShape for which strides.
//
// The consumer owns the structs and calls their release functions. Until then the memory stays alive; t may be closed
// before. The device must not be closed before. If ExportDevice fails, the structs are unchanged.
//
// Device types have the numbers of DLPack, and the index of a device is its device_id, which is -1 for the host. If the
// last write to the tensor is not done, see ExportOptions.Stream: without a stream, ExportDevice blocks until it is done,
// or returns ctx's error. ExportDevice returns core.ErrNotSupported for memory without addresses, core.ErrInvalid if a
// pointer is nil, and the errors of ToFixedShape.
func ExportDevice(ctx context.Context, t *core.Tensor, array, schema unsafe.Pointer, o ExportOptions) error {
	const call = "ExportDevice"
	if t == nil || array == nil || schema == nil {
		return isNil(call)
	}
	id := t.DeviceID()
	if !hasAddresses(id.Type) {
		return badDevice(call, id.Type)
	}
	event, release, err := exportReady(ctx, call, t, o.Stream)
	if err != nil {
		return err
	}
	a, err := toExported(ctx, call, t, o.Names, access{anywhere: true, before: release})
	if err != nil {
		if release != nil {
			release()
		}
		return err
	}
	defer a.Release()
	// arrow-go wants structs that are zero.
	out, outSchema := (*cDeviceArray)(array), (*cdata.CArrowSchema)(schema)
	*out, *outSchema = cDeviceArray{}, cdata.CArrowSchema{}
	exportArray(a, (*cdata.CArrowArray)(array), outSchema)
	out.deviceID, out.deviceType, out.syncEvent = int64(id.Index), int32(id.Type), event
	if id.Type == core.DeviceCPU {
		out.deviceID = -1
	}
	return nil
}

func toExported(ctx context.Context, call string, t *core.Tensor, names []string, how access) (arrow.Array, error) {
	if t.Rank() != 1 {
		a, err := toFixedShape(ctx, call, t, names, how)
		if err != nil {
			return nil, err // not a nil pointer in an interface
		}
		return a, nil
	}
	return toArray(ctx, call, t, how)
}

// exportArray fills the structs. arrow-go exports the type of an extension array, but not its lists.
func exportArray(a arrow.Array, out *cdata.CArrowArray, schema *cdata.CArrowSchema) {
	extension, ok := a.(array.ExtensionArray)
	if !ok {
		cdata.ExportArrowArray(a, out, schema)
		return
	}
	cdata.ExportArrowArray(extension.Storage(), out, nil)
	unused := (*cdata.CArrowArray)(C.calloc(1, C.size_t(unsafe.Sizeof(*out))))
	defer C.free(unsafe.Pointer(unused))
	cdata.ExportArrowArray(a, unused, schema)
	cdata.ReleaseCArrowArray(unused)
}

// exportReady returns a pointer to an event after the last write to t, and a function that destroys it; or NULL, if
// the write is done.
func exportReady(ctx context.Context, call string, t *core.Tensor, s core.Stream) (event uintptr, release func(), err error) {
	ready := t.Ready()
	if ready == nil {
		return 0, nil, nil
	}
	recorder, ok := s.(NativeRecorder)
	ok = ok && ofAPI(s, t.DeviceID().Type) // consumers take the event for one of the memory's API
	if ok {
		err = recorder.Wait(ready)
	}
	switch {
	case !ok || errors.Is(err, core.ErrNotSupported): // no event of the device stands for the write
		return 0, nil, t.WaitReady(ctx)
	case err != nil:
		return 0, nil, err
	}
	raw, destroy, err := recorder.RecordNative()
	if err != nil {
		return 0, nil, err
	}
	// The struct has a pointer to the event.
	cell := (*uintptr)(C.malloc(C.size_t(unsafe.Sizeof(raw))))
	*cell = raw
	return uintptr(unsafe.Pointer(cell)), func() {
		destroy()
		C.free(unsafe.Pointer(cell))
	}, nil
}
