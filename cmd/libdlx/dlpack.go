//go:build cgo

package main

// #include <stdlib.h>
// #include "dlx.h"
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

// importOptions reads the options of an import.
func importOptions(o *C.dlx_import_options) (options dlpack.ImportOptions, err error) {
	if o == nil {
		return options, nil
	}
	if err := unset(o.reserved[:]...); err != nil {
		return options, err
	}
	switch {
	case o.size < 0:
		return options, core.Errorf(core.ErrLayout, origin, "", "size is %d", o.size)
	case o.size > 0:
		options.Size = int64(o.size)
	}
	switch id := (core.DeviceID{Type: core.DeviceType(o.on_device._type), Index: int32(o.on_device.index)}); {
	case id.Type != 0:
		options.OnDevice = id
	case id.Index != 0:
		return options, invalid("on_device has the index %d, but no type", id.Index)
	}
	return options, nil
}

// imported makes a tensor with take, which owns a managed tensor, or calls drop, which deletes it.
func imported(out **C.dlx_tensor, o *C.dlx_import_options, take func(options dlpack.ImportOptions) (*core.Tensor, error), drop func()) error {
	err := required("tensor", unsafe.Pointer(out))
	var options dlpack.ImportOptions
	if err == nil {
		options, err = importOptions(o)
	}
	if err != nil {
		drop()
		return err
	}
	t, err := take(options)
	return setTensor(out, t, err)
}

//export dlxgo_tensor_import
func dlxgo_tensor_import(managed *C.struct_DLManagedTensorVersioned, o *C.dlx_import_options, tensor **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		m := (*dlpack.ManagedTensorVersioned)(unsafe.Pointer(managed))
		return imported(tensor, o, func(options dlpack.ImportOptions) (*core.Tensor, error) { return dlpack.Import(m, options) }, func() { dlpack.Delete(m) })
	})
}

//export dlxgo_tensor_import_legacy
func dlxgo_tensor_import_legacy(managed *C.struct_DLManagedTensor, o *C.dlx_import_options, tensor **C.dlx_tensor, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		m := (*dlpack.ManagedTensor)(unsafe.Pointer(managed))
		return imported(tensor, o, func(options dlpack.ImportOptions) (*core.Tensor, error) { return dlpack.ImportLegacy(m, options) }, func() { dlpack.DeleteLegacy(m) })
	})
}

// exported sets *managed, a pointer to a managed tensor, to what export makes of a tensor.
func exported(tensor *C.dlx_tensor, managed unsafe.Pointer, e *C.dlx_error, export func(*core.Tensor) (unsafe.Pointer, error)) C.dlx_status {
	return do(e, func() error {
		if err := required("managed", managed); err != nil {
			return err
		}
		t, err := tensors.get(unsafe.Pointer(tensor))
		if err != nil {
			return err
		}
		m, err := export(t)
		if err == nil {
			*(*unsafe.Pointer)(managed) = m
		}
		return err
	})
}

//export dlxgo_tensor_export
func dlxgo_tensor_export(tensor *C.dlx_tensor, managed **C.struct_DLManagedTensorVersioned, e *C.dlx_error) C.dlx_status {
	return exported(tensor, unsafe.Pointer(managed), e, func(t *core.Tensor) (unsafe.Pointer, error) {
		m, err := dlpack.Export(t)
		return unsafe.Pointer(m), err
	})
}

//export dlxgo_tensor_export_copied
func dlxgo_tensor_export_copied(tensor *C.dlx_tensor, managed **C.struct_DLManagedTensorVersioned, e *C.dlx_error) C.dlx_status {
	return exported(tensor, unsafe.Pointer(managed), e, func(t *core.Tensor) (unsafe.Pointer, error) {
		m, err := dlpack.ExportCopied(t)
		if err == nil {
			// Another thread may have closed the handle in between. The tensor is closed either way.
			_, _ = tensors.take(unsafe.Pointer(tensor))
		}
		return unsafe.Pointer(m), err
	})
}

//export dlxgo_tensor_export_legacy
func dlxgo_tensor_export_legacy(tensor *C.dlx_tensor, managed **C.struct_DLManagedTensor, e *C.dlx_error) C.dlx_status {
	return exported(tensor, unsafe.Pointer(managed), e, func(t *core.Tensor) (unsafe.Pointer, error) {
		m, err := dlpack.ExportLegacy(t)
		return unsafe.Pointer(m), err
	})
}

//export dlxgo_dlpack_exchange_api
func dlxgo_dlpack_exchange_api(table **C.struct_DLPackExchangeAPI, e *C.dlx_error) C.dlx_status {
	return do(e, func() error {
		if err := required("table", unsafe.Pointer(table)); err != nil {
			return err
		}
		*table = (*C.struct_DLPackExchangeAPI)(unsafe.Pointer(dlpack.Table()))
		return nil
	})
}
