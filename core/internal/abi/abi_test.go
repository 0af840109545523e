package abi

import (
	"testing"
	"unsafe"
)

// fact is one number of the ABI: its expression in C and its value here.
type fact struct {
	c    string
	here uintptr
	want uintptr // on 64-bit platforms, as dlpack.h 1.3 has it
}

// facts lists every size, alignment and offset.
func facts() []fact {
	var (
		v   Version
		dev Device
		dt  DataType
		t   Tensor
		m   ManagedTensor
		mv  ManagedTensorVersioned
		h   ExchangeAPIHeader
		x   ExchangeAPI
	)
	return []fact{
		{"sizeof(DLPackVersion)", unsafe.Sizeof(v), 8},
		{"_Alignof(DLPackVersion)", unsafe.Alignof(v), 4},
		{"offsetof(DLPackVersion, major)", unsafe.Offsetof(v.Major), 0},
		{"offsetof(DLPackVersion, minor)", unsafe.Offsetof(v.Minor), 4},
		{"sizeof(DLDevice)", unsafe.Sizeof(dev), 8},
		{"_Alignof(DLDevice)", unsafe.Alignof(dev), 4},
		{"offsetof(DLDevice, device_type)", unsafe.Offsetof(dev.Type), 0},
		{"offsetof(DLDevice, device_id)", unsafe.Offsetof(dev.ID), 4},
		{"sizeof(DLDataType)", unsafe.Sizeof(dt), 4},
		{"_Alignof(DLDataType)", unsafe.Alignof(dt), 2},
		{"offsetof(DLDataType, code)", unsafe.Offsetof(dt.Code), 0},
		{"offsetof(DLDataType, bits)", unsafe.Offsetof(dt.Bits), 1},
		{"offsetof(DLDataType, lanes)", unsafe.Offsetof(dt.Lanes), 2},
		{"sizeof(DLTensor)", unsafe.Sizeof(t), 48},
		{"_Alignof(DLTensor)", unsafe.Alignof(t), 8},
		{"offsetof(DLTensor, data)", unsafe.Offsetof(t.Data), 0},
		{"offsetof(DLTensor, device)", unsafe.Offsetof(t.Device), 8},
		{"offsetof(DLTensor, ndim)", unsafe.Offsetof(t.NDim), 16},
		{"offsetof(DLTensor, dtype)", unsafe.Offsetof(t.DType), 20},
		{"offsetof(DLTensor, shape)", unsafe.Offsetof(t.Shape), 24},
		{"offsetof(DLTensor, strides)", unsafe.Offsetof(t.Strides), 32},
		{"offsetof(DLTensor, byte_offset)", unsafe.Offsetof(t.ByteOffset), 40},
		{"sizeof(DLManagedTensor)", unsafe.Sizeof(m), 64},
		{"_Alignof(DLManagedTensor)", unsafe.Alignof(m), 8},
		{"offsetof(DLManagedTensor, dl_tensor)", unsafe.Offsetof(m.Tensor), 0},
		{"offsetof(DLManagedTensor, manager_ctx)", unsafe.Offsetof(m.ManagerCtx), 48},
		{"offsetof(DLManagedTensor, deleter)", unsafe.Offsetof(m.Deleter), 56},
		{"sizeof(DLManagedTensorVersioned)", unsafe.Sizeof(mv), 80},
		{"_Alignof(DLManagedTensorVersioned)", unsafe.Alignof(mv), 8},
		{"offsetof(DLManagedTensorVersioned, version)", unsafe.Offsetof(mv.Version), 0},
		{"offsetof(DLManagedTensorVersioned, manager_ctx)", unsafe.Offsetof(mv.ManagerCtx), 8},
		{"offsetof(DLManagedTensorVersioned, deleter)", unsafe.Offsetof(mv.Deleter), 16},
		{"offsetof(DLManagedTensorVersioned, flags)", unsafe.Offsetof(mv.Flags), 24},
		{"offsetof(DLManagedTensorVersioned, dl_tensor)", unsafe.Offsetof(mv.Tensor), 32},
		{"sizeof(DLPackExchangeAPIHeader)", unsafe.Sizeof(h), 16},
		{"_Alignof(DLPackExchangeAPIHeader)", unsafe.Alignof(h), 8},
		{"offsetof(DLPackExchangeAPIHeader, version)", unsafe.Offsetof(h.Version), 0},
		{"offsetof(DLPackExchangeAPIHeader, prev_api)", unsafe.Offsetof(h.PrevAPI), 8},
		{"sizeof(DLPackExchangeAPI)", unsafe.Sizeof(x), 56},
		{"_Alignof(DLPackExchangeAPI)", unsafe.Alignof(x), 8},
		{"offsetof(DLPackExchangeAPI, header)", unsafe.Offsetof(x.Header), 0},
		{"offsetof(DLPackExchangeAPI, managed_tensor_allocator)", unsafe.Offsetof(x.ManagedTensorAllocator), 16},
		{"offsetof(DLPackExchangeAPI, managed_tensor_from_py_object_no_sync)", unsafe.Offsetof(x.ManagedTensorFromPyObjectNoSync), 24},
		{"offsetof(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync)", unsafe.Offsetof(x.ManagedTensorToPyObjectNoSync), 32},
		{"offsetof(DLPackExchangeAPI, dltensor_from_py_object_no_sync)", unsafe.Offsetof(x.DLTensorFromPyObjectNoSync), 40},
		{"offsetof(DLPackExchangeAPI, current_work_stream)", unsafe.Offsetof(x.CurrentWorkStream), 48},
	}
}

func TestLayoutIsThatOfTheStandardOn64Bit(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the numbers are those of 64-bit platforms")
	}
	for _, f := range facts() {
		if f.here != f.want {
			t.Errorf("%s is %d in Go, the standard says %d", f.c, f.here, f.want)
		}
	}
}

func TestPointerIsTheAddress(t *testing.T) {
	for _, address := range []uintptr{0, 1 << 32, 1<<47 - 8} {
		if got := uintptr(Pointer(address)); got != address {
			t.Errorf("Pointer(%#x) is %#x", address, got)
		}
	}
}
