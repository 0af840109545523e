//go:build vulkan && linux && cgo

package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/ebitengine/purego"
)

// kernels is a library of CUDA kernels that knows nothing of dlx. It has a stream of its own.
type kernels struct {
	stream  uintptr // CUstream
	device  int32
	context uintptr

	setCurrent func(context uintptr) uint32
	fillAsync  func(address uintptr, value uint32, count uint, stream uintptr) uint32
	destroy    func(stream uintptr) uint32
	release    func(device int32) uint32
}

// newKernels opens the library for a device of CUDA. The caller closes it.
func newKernels(index int32) (*kernels, error) {
	name := os.Getenv("DLX_CUDA_LIBRARY") // a simulated driver, for machines without a card
	if name == "" {
		name = "libcuda.so.1"
	}
	driver, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	var start func(flags uint32) uint32
	var get func(device *int32, index int32) uint32
	var retain func(context *uintptr, device int32) uint32
	var create func(stream *uintptr, flags uint32) uint32
	k := new(kernels)
	for name, f := range map[string]any{
		"cuInit": &start, "cuDeviceGet": &get, "cuDevicePrimaryCtxRetain": &retain, "cuCtxSetCurrent": &k.setCurrent,
		"cuStreamCreate": &create, "cuMemsetD32Async": &k.fillAsync,
		"cuStreamDestroy_v2": &k.destroy, "cuDevicePrimaryCtxRelease_v2": &k.release,
	} {
		purego.RegisterLibFunc(f, driver, name)
	}
	const nonBlocking = 1 // CU_STREAM_NON_BLOCKING
	if err := failed("cuInit", start(0)); err != nil {
		return nil, err
	}
	if err := failed("cuDeviceGet", get(&k.device, index)); err != nil {
		return nil, err
	}
	if err := failed("cuDevicePrimaryCtxRetain", retain(&k.context, k.device)); err != nil {
		return nil, err
	}
	if err := k.current(func() error { return failed("cuStreamCreate", create(&k.stream, nonBlocking)) }); err != nil {
		k.release(k.device)
		return nil, err
	}
	return k, nil
}

// current calls f on a thread that has the library's context.
func (k *kernels) current(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := failed("cuCtxSetCurrent", k.setCurrent(k.context)); err != nil {
		return err
	}
	return f()
}

// fill enqueues a kernel that sets words.
func (k *kernels) fill(address uintptr, value uint32, count uint) error {
	return k.current(func() error { return failed("cuMemsetD32Async", k.fillAsync(address, value, count, k.stream)) })
}

func (k *kernels) close() {
	_ = k.current(func() error { return failed("cuStreamDestroy", k.destroy(k.stream)) })
	k.release(k.device)
}

func failed(call string, result uint32) error {
	if result != 0 {
		return fmt.Errorf("%s: CUresult %d", call, result)
	}
	return nil
}
