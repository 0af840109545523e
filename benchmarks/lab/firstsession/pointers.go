//go:build cuda && vulkan && linux && cgo

package main

// #include "raw.h"
import "C"

import (
	"context"
	"fmt"
	"runtime"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
)

// The CUmemLocationTypes of examinePointers.
const (
	locationDevice   = 1
	locationHost     = 2
	locationHostNUMA = 3
)

// examinePointers asks for all attributes of the addresses of each kind of memory.
func examinePointers(r *reporter) error {
	runtime.LockOSThread()
	c, err := r.openCUDA()
	if err != nil {
		return err
	}
	device, err := all.New().Open(context.Background(), core.DeviceID{Type: core.DeviceCUDA})
	if err != nil {
		return err
	}
	const size = 2 << 20
	host := func(kind string) func(*C.uint64_t) error {
		return func(out *C.uint64_t) error {
			p, _, err := r.hostMemory(kind, size)
			*out = C.uint64_t(uintptr(p))
			return err
		}
	}
	vmm := func(location C.int) func(*C.uint64_t) error {
		return func(out *C.uint64_t) error { return cudaError(C.fs_cuda_vmm(size, location, out)) }
	}
	for _, m := range []struct {
		name string
		new  func(*C.uint64_t) error
	}{
		{"cuMemAlloc", func(out *C.uint64_t) error { return cudaError(C.fs_cuda_alloc(size, out)) }},
		{"cuMemHostAlloc", host("cuda_host")},
		{"cuMemHostRegister", host("cuda_registered")},
		{"cuMemAllocManaged", func(out *C.uint64_t) error { return cudaError(C.fs_cuda_managed(size, out)) }},
		{"cuMemCreate on the device", vmm(locationDevice)},
		{"cuMemCreate on the host", vmm(locationHost)},
		{"cuMemCreate on NUMA node 0", vmm(locationHostNUMA)},
		{"cuMemAllocAsync", func(out *C.uint64_t) error { return cudaError(C.fs_cuda_pooled(size, out)) }},
		{"memory of Vulkan, imported", func(out *C.uint64_t) error {
			fd, allocated, err := r.exportedMemory(c, size)
			if err != nil {
				return err
			}
			return cudaError(C.fs_cuda_import(C.int(fd), C.uint64_t(allocated), out))
		}},
		{"memory that is not the driver's", host("anonymous")},
	} {
		var p C.uint64_t
		if err := m.new(&p); err != nil {
			r.row(row{"memory": m.name, "missing": err.Error()})
			continue
		}
		found := row{"memory": m.name, "address": fmt.Sprintf("%#x", uint64(p))}
		var answers [C.FS_ATTRIBUTES]C.fs_attribute
		for _, a := range answers[:C.fs_cuda_attributes(p, &answers[0])] {
			text := fmt.Sprintf("%#x", uint64(a.value))
			if a.code != 0 {
				text = cudaCode(a.code)
			}
			found[C.GoString(a.name)] = text
		}
		found["dlx"] = imported(device, uintptr(p), size)
		r.row(found)
	}
	return nil
}

// imported says what ImportPointer makes of memory.
func imported(d core.Device, p uintptr, size int64) string {
	importer, ok := core.As[core.PointerImporter](d)
	if !ok {
		return "the device imports no pointers"
	}
	m, err := importer.ImportPointer(p, size, nil)
	if err != nil {
		return err.Error()
	}
	defer m.Free()
	return fmt.Sprintf("imported, at %#x", m.Handle+uintptr(m.Offset))
}
