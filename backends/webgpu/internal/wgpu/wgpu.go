//go:build webgpu && linux && cgo

package wgpu

// #include "calls.h"
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/core"
)

// Handle is an object of WebGPU, such as a WGPUBuffer. 0 is none.
type Handle uintptr

func (h Handle) c() unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&h)) }

func handle(p unsafe.Pointer) Handle { return Handle(uintptr(p)) }

// Library is an opened library, with an instance.
type Library struct {
	Version  string // such as "wgpu-native 29.0.1.1"
	instance unsafe.Pointer
}

// Open opens the library of DLX_WEBGPU_LIBRARY, or libwgpu_native.so, once for the process: a driver does not survive
// being unloaded.
var Open = sync.OnceValues(func() (*Library, error) {
	names := []string{"libwgpu_native.so", "libwgpu_native-release.so"}
	if name := os.Getenv("DLX_WEBGPU_LIBRARY"); name != "" {
		names = []string{name}
	}
	library, err := dl.Open("webgpu", names...)
	if err != nil {
		return nil, err
	}
	fields := Table()
	symbols := make([]dl.Symbol, len(fields))
	for i := range fields {
		symbols[i] = dl.Symbol{Name: C.GoString(C.dlx_wgpu_name(C.size_t(i))), Address: &fields[i]}
	}
	if err := library.Resolve(symbols); err != nil {
		return nil, err
	}
	defer dl.KeepHandlers()()
	v := uint32(C.dlx_wgpu_version())
	l := &Library{Version: fmt.Sprintf("wgpu-native %d.%d.%d.%d", v>>24, v>>16&0xff, v>>8&0xff, v&0xff), instance: C.dlx_wgpu_instance()}
	if l.instance == nil {
		return nil, core.Errorf(core.ErrNotSupported, "webgpu", "wgpuCreateInstance", "%s makes no instance", library.Name())
	}
	return l, nil
})

// Table holds the addresses of the functions, in the order of calls.h. Tests replace them to make calls fail.
func Table() []uintptr {
	return unsafe.Slice((*uintptr)(unsafe.Pointer(&C.dlx_wgpu_fn)), unsafe.Sizeof(C.dlx_wgpu_fn)/unsafe.Sizeof(uintptr(0)))
}

// Callbacks returns how many devices are open and how many callbacks of work are awaited, together. It is for tests.
func Callbacks() int64 { return int64(C.dlx_wgpu_callbacks()) }

// Limits are those of WGPULimits that dlx uses.
type Limits struct {
	BufferSize       int64  // maxBufferSize
	StorageRange     int64  // maxStorageBufferBindingSize
	StorageAlignment int64  // minStorageBufferOffsetAlignment
	Groups           uint32 // maxComputeWorkgroupsPerDimension
	GroupMemory      int64  // maxComputeWorkgroupStorageSize, in bytes
}

func limitsOf(l *C.dlx_wgpu_limits) Limits {
	return Limits{
		BufferSize: bounded(l.buffer_size), StorageRange: bounded(l.storage_range),
		StorageAlignment: int64(l.storage_alignment), Groups: uint32(l.groups),
		GroupMemory: int64(l.group_memory),
	}
}

// bounded converts a size, of which the largest stands for no limit.
func bounded(n C.uint64_t) int64 { return int64(min(uint64(n), 1<<62)) }

// Adapter is a device that can be opened.
type Adapter struct {
	Name, Driver string
	CPU          bool // the device is the processor
	VendorID     uint32
	DeviceID     uint32
	Limits       Limits
	handle       unsafe.Pointer
	all          C.dlx_wgpu_limits
}

// Adapters lists the adapters of Vulkan, which WebGPU uses on Linux. The caller releases them.
func (l *Library) Adapters() []*Adapter {
	defer dl.KeepHandlers()()
	var handles [64]unsafe.Pointer // more than any machine has
	n := int(C.dlx_wgpu_adapters(l.instance, &handles[0], C.size_t(len(handles))))
	var list []*Adapter
	for _, h := range handles[:n] {
		a := &Adapter{handle: h}
		var info C.dlx_wgpu_adapter_info
		if !a.describe(&info) {
			a.Release()
			continue
		}
		list = append(list, a)
	}
	return list
}

// describe fills a, and reports whether it is an adapter of Vulkan.
func (a *Adapter) describe(info *C.dlx_wgpu_adapter_info) bool {
	if C.dlx_wgpu_describe(a.handle, info, &a.all) == 0 {
		return false
	}
	defer C.dlx_wgpu_free_info(info)
	a.Name, a.Driver = text(info.device), text(info.description)
	a.CPU = info._type == C.DLX_WGPU_ADAPTER_CPU
	a.VendorID, a.DeviceID = uint32(info.vendor_id), uint32(info.device_id)
	a.Limits = limitsOf(&a.all)
	return info.backend == C.DLX_WGPU_BACKEND_VULKAN
}

func text(t C.dlx_wgpu_text) string {
	if t.data == nil {
		return ""
	}
	if t.length == ^C.size_t(0) {
		return C.GoString(t.data)
	}
	return C.GoStringN(t.data, C.int(t.length))
}

// Release releases the adapter.
func (a *Adapter) Release() { C.dlx_wgpu_release_adapter(a.handle) }

// Device is an opened device with its queue. Its methods can be called from any goroutine.
type Device struct {
	handle, queue unsafe.Pointer
	state         *C.dlx_wgpu_state      // nil for a device of the program, whose callback is the program's
	lost          atomic.Pointer[string] // why, if an error of a call said so
	mu            sync.Mutex             // held by groups of calls, whose errors are read together
	written       int64                  // bytes that will go to buffers before the next submission
	ahead         int64                  // bytes of copies submitted since the queue was empty; above brief if there is other work
	last          C.uint64_t             // the last submission
	failed        C.dlx_wgpu_error       // the first error of a group of calls
}

// brief is for how many bytes of copies the library itself waits, which keeps others from submitting meanwhile.
const brief = 32 << 20

// Open opens a device with all limits of the adapter.
func (a *Adapter) Open() (*Device, error) {
	defer dl.KeepHandlers()()
	d := new(Device)
	var failed C.dlx_wgpu_error
	d.handle = C.dlx_wgpu_open(a.handle, &a.all, &d.state, &failed)
	if d.handle == nil {
		return nil, core.Errorf(core.ErrNotSupported, "webgpu", "wgpuAdapterRequestDevice", "%s opens no device: %s", a.Name, C.GoString(&failed.text[0]))
	}
	if d.queue = C.dlx_wgpu_queue(d.handle); d.queue == nil {
		d.Close()
		return nil, none("wgpuDeviceGetQueue")
	}
	return d, nil
}

// Wrap adds a reference to a WGPUDevice of the program, and returns it with its limits. The caller closes the result.
func Wrap(native Handle) (*Device, Limits, error) {
	defer dl.KeepHandlers()()
	var limits C.dlx_wgpu_limits
	if C.dlx_wgpu_device_limits(native.c(), &limits) == 0 {
		return nil, Limits{}, core.Errorf(core.ErrNotSupported, "webgpu", "wgpuDeviceGetLimits", "the device does not say its limits")
	}
	C.dlx_wgpu_retain_device(native.c())
	d := &Device{handle: native.c()}
	if d.queue = C.dlx_wgpu_queue(d.handle); d.queue == nil {
		d.Close()
		return nil, Limits{}, none("wgpuDeviceGetQueue")
	}
	return d, limitsOf(&limits), nil
}

// Native returns the WGPUDevice.
func (d *Device) Native() Handle { return handle(d.handle) }

// Close releases the device. Nothing uses it any more.
func (d *Device) Close() {
	if d.state != nil {
		C.dlx_wgpu_drop_state(d.state)
	}
	C.dlx_wgpu_close(d.handle, d.queue)
}

// Lost returns the error of a lost device, or nil.
func (d *Device) Lost(call string) error {
	text := d.lost.Load()
	if text == nil && d.state != nil && atomic.LoadUint32((*uint32)(&d.state.lost)) != 0 {
		t := C.GoString(&d.state.why.text[0])
		text = &t
	}
	if text == nil {
		return nil
	}
	return core.Errorf(core.ErrDeviceLost, "webgpu", call, "%s: close the device and everything that was opened on it", *text)
}

// lostText is part of the error of each call for a lost device. The type of that error is WGPUErrorType_Validation, and the callback
// for a lost device comes later than the error, or never.
const lostText = "Parent device is lost"

// none is the error of a call that returned no object and left no error in a scope.
func none(call string) error {
	return core.Errorf(core.ErrOutOfMemory, "webgpu", call, "the library returned no object")
}

// group calls f, and returns the first error of its calls of WebGPU. The error names call.
func (d *Device) group(call string, f func()) error {
	if err := d.Lost(call); err != nil {
		return err
	}
	runtime.LockOSThread() // a scope of errors may be the thread's
	defer runtime.UnlockOSThread()
	d.mu.Lock()
	defer d.mu.Unlock()
	C.dlx_wgpu_begin(d.handle)
	f()
	failed := &d.failed
	C.dlx_wgpu_end(d.handle, failed)
	if failed._type == 0 {
		return nil
	}
	text := C.GoString(&failed.text[0])
	if strings.Contains(text, lostText) {
		d.lost.Store(&text)
	}
	if err := d.Lost(call); err != nil {
		return err
	}
	sentinel := core.ErrInvalid
	if failed._type == C.DLX_WGPU_OUT_OF_MEMORY {
		sentinel = core.ErrOutOfMemory
	}
	err := core.Errorf(sentinel, "webgpu", call, "%s", text)
	err.Code = int64(failed._type)
	return err
}

// Usage says what a buffer is for.
type Usage uint64

// The usages of dlx's buffers: those of memory, of what the host reads, and of what it writes.
const (
	Memory   Usage = C.DLX_WGPU_COPY_SRC | C.DLX_WGPU_COPY_DST | C.DLX_WGPU_STORAGE
	Readback Usage = C.DLX_WGPU_MAP_READ | C.DLX_WGPU_COPY_DST
	Staging  Usage = C.DLX_WGPU_MAP_WRITE | C.DLX_WGPU_COPY_SRC
)

// NewBuffer makes a buffer. size is a multiple of 4, above 0. The caller owns the result.
func (d *Device) NewBuffer(usage Usage, size int64) (Handle, error) {
	var b unsafe.Pointer
	err := d.group("wgpuDeviceCreateBuffer", func() { b = C.dlx_wgpu_new_buffer(d.handle, C.uint64_t(usage), C.uint64_t(size), 0) })
	switch {
	case err != nil && b != nil:
		ReleaseBuffer(handle(b)) // a buffer that only has an error
		return 0, err
	case err != nil:
		return 0, err
	case b == nil:
		return 0, none("wgpuDeviceCreateBuffer")
	}
	return handle(b), nil
}

// BufferOf makes a buffer of a WGPUDevice as a program would. The caller owns the result. It is for tests.
func BufferOf(device, usage uintptr, size int64, mapped bool) Handle {
	var m C.int
	if mapped {
		m = 1
	}
	return handle(C.dlx_wgpu_new_buffer(Handle(device).c(), C.uint64_t(usage), C.uint64_t(size), m))
}

// RetainBuffer adds an owner to a buffer.
func RetainBuffer(b Handle) { C.dlx_wgpu_retain_buffer(b.c()) }

// ReleaseBuffer takes an owner away.
func ReleaseBuffer(b Handle) { C.dlx_wgpu_release_buffer(b.c()) }

// Describe returns the size and the usage of a buffer.
func Describe(b Handle) (size int64, usage Usage) {
	return bounded(C.dlx_wgpu_buffer_size(b.c())), Usage(C.dlx_wgpu_buffer_usage(b.c()))
}

// Write copies n bytes of the host to a buffer, before commands that are submitted later. offset and n are multiples of
// 4. The library has read the bytes when Write returns.
func (d *Device) Write(b Handle, offset int64, host uintptr, n int64) error {
	return d.group("wgpuQueueWriteBuffer", func() {
		C.dlx_wgpu_write(d.queue, b.c(), C.uint64_t(offset), C.uintptr_t(host), C.size_t(n))
		d.written += n
	})
}

// Usable fails with ErrInvalid if a buffer of size bytes is mapped, was destroyed or belongs to another device. A submission that uses
// such a buffer ends the process, and so does wgpuBufferGetMapState of version 29. Usable writes no bytes, which only a buffer of
// another device refuses, and beyond the end, which changes nothing: the library names the range only if nothing else is wrong.
func (d *Device) Usable(b Handle, size int64) error {
	write := func(offset, n int64) error {
		return d.group("wgpuQueueWriteBuffer", func() { C.dlx_wgpu_write_zeros(d.queue, b.c(), C.uint64_t(offset), C.size_t(n)) })
	}
	if err := write(0, 0); err != nil {
		return err
	}
	if err := write(size&^3, 4); err != nil && !strings.Contains(err.Error(), beyondText) {
		return err
	}
	return nil
}

// beyondText is part of the error of a write beyond the end of a buffer.
const beyondText = "overrun"

// Encoder is commands that are being recorded.
type Encoder struct {
	device  *Device
	handle  unsafe.Pointer
	missing string // the first call that returned no object
	bytes   int64  // of copies; above brief if there is other work
}

// Submit records commands by f, and submits them. The caller owns the result. A device carries out what is submitted in
// order.
func (d *Device) Submit(call string, f func(*Encoder)) (*Work, error) {
	w := &Work{device: d}
	if err := d.submit(call, f, w); err != nil {
		w.Drop()
		return nil, err
	}
	return w, nil
}

// submit records and submits commands, and asks for a callback, for w.
func (d *Device) submit(call string, f func(*Encoder), w *Work) error {
	// wgpu-native ends the process if invalid commands are submitted, so they are checked first.
	var commands unsafe.Pointer
	e := &Encoder{device: d}
	err := d.group(call, func() {
		if e.handle = C.dlx_wgpu_encoder(d.handle); e.handle == nil {
			e.missing = "wgpuDeviceCreateCommandEncoder"
			return
		}
		f(e)
		if commands = C.dlx_wgpu_finish(e.handle); commands == nil && e.missing == "" {
			e.missing = "wgpuCommandEncoderFinish"
		}
	})
	if err == nil && e.missing != "" {
		err = none(e.missing)
	}
	if commands != nil {
		defer C.dlx_wgpu_release_commands(commands)
	}
	if err != nil {
		return err
	}
	var idle C.uint32_t
	err = d.group("wgpuQueueSubmitForIndex", func() {
		idle = C.dlx_wgpu_idle(d.handle, d.queue) // wgpuDevicePoll returns true for a queue that has work, too
		if idle > C.DLX_WGPU_SUCCESS {
			return
		}
		this := C.dlx_wgpu_submit(d.queue, commands)
		switch {
		case idle == C.DLX_WGPU_SUCCESS:
			d.ahead = 0
		case this != d.last+1:
			d.ahead = brief + 1 // the program has submitted something
		}
		d.ahead = min(d.ahead+d.written+e.bytes, brief+1)
		d.written, d.last = 0, this
		if d.ahead <= brief {
			w.submission = this
		}
		w.wait = C.dlx_wgpu_on_done(d.queue)
	})
	if err == nil && idle > C.DLX_WGPU_SUCCESS {
		err = badStatus("wgpuQueueOnSubmittedWorkDone", idle)
	}
	return err
}

// badStatus is the error of a callback.
func badStatus(call string, status C.uint32_t) error {
	err := core.Errorf(core.ErrInvalid, "webgpu", call, "the status of the callback is %d", status)
	err.Code = int64(status)
	return err
}

// WaitForAll waits within the library for all that was submitted: meanwhile nothing can be submitted. It is for tests.
func (d *Device) WaitForAll() error {
	return d.group("wgpuDevicePoll", func() { C.dlx_wgpu_wait_for_all(d.handle) })
}

// Copy records a copy between two buffers, which are different. Offsets and n are multiples of 4.
func (e *Encoder) Copy(dst Handle, to int64, src Handle, from, n int64) {
	e.bytes += n
	C.dlx_wgpu_copy(e.handle, src.c(), C.uint64_t(from), dst.c(), C.uint64_t(to), C.uint64_t(n))
}

// Range is a part of a buffer.
type Range struct {
	Buffer       Handle
	Offset, Size int64
}

// Dispatch records one run of a pipeline, over what it writes, what it reads and its constants.
func (e *Encoder) Dispatch(pipeline Handle, ranges [3]Range, groups [3]uint32) {
	e.bytes = brief + 1 // nobody knows how long a shader takes
	var c [3]C.dlx_wgpu_range
	for i, r := range ranges {
		c[i] = C.dlx_wgpu_range{buffer: r.Buffer.c(), offset: C.uint64_t(r.Offset), size: C.uint64_t(r.Size)}
	}
	missing := C.dlx_wgpu_dispatch(e.device.handle, e.handle, pipeline.c(), &c[0], C.uint32_t(groups[0]), C.uint32_t(groups[1]), C.uint32_t(groups[2]))
	if missing != nil && e.missing == "" {
		e.missing = C.GoString(missing)
	}
}

// NewPipeline compiles a shader, whose entry point is main. The caller owns the result.
func (d *Device) NewPipeline(wgsl string) (Handle, error) {
	defer dl.KeepHandlers()()
	code := C.CString(wgsl)
	defer C.dlx_wgpu_free(unsafe.Pointer(code))
	var p unsafe.Pointer
	var missing *C.char
	err := d.group("wgpuDeviceCreateComputePipeline", func() { p = C.dlx_wgpu_new_pipeline(d.handle, code, C.size_t(len(wgsl)), &missing) })
	if err == nil && p == nil {
		err = none(C.GoString(missing))
	}
	if err != nil {
		if p != nil {
			ReleasePipeline(handle(p))
		}
		return 0, err
	}
	return handle(p), nil
}

// ReleasePipeline releases a pipeline.
func ReleasePipeline(p Handle) { C.dlx_wgpu_release_pipeline(p.c()) }

// Work is something that a device will have done. Its owner calls Drop.
type Work struct {
	device     *Device
	wait       *C.dlx_wgpu_wait
	submission C.uint64_t // if it ends soon, and 0 otherwise
}

// Done asks the device whether the work is done, and waits for it within the library if it ends soon. It fails if the work will not
// be done.
func (w *Work) Done(call string) (bool, error) {
	if w.wait == nil {
		return false, core.Errorf(core.ErrOutOfMemory, "webgpu", call, "there is no memory for a callback")
	}
	status := C.dlx_wgpu_poll(w.device.handle, w.wait, w.submission)
	if err := w.device.Lost(call); err != nil {
		return false, err
	}
	switch status {
	case 0:
		return false, nil
	case C.DLX_WGPU_SUCCESS:
		return true, nil
	}
	return false, badStatus(call, status)
}

// Brief reports whether the library waits for the work. It is for tests.
func (w *Work) Brief() bool { return w.submission != 0 }

// Drop must be called once, when nobody asks any more.
func (w *Work) Drop() {
	if w.wait != nil {
		C.dlx_wgpu_drop_wait(w.wait)
		w.wait = nil
	}
}

// mode is how a buffer of a usage is mapped.
func (u Usage) mode() C.uint64_t { return C.uint64_t(u) & (C.DLX_WGPU_MAP_READ | C.DLX_WGPU_MAP_WRITE) }

// Map begins to map the first size bytes of a buffer, whose usage is Readback or Staging. When the result is done, Mapped returns the
// address, and Unmap ends the mapping.
func (d *Device) Map(b Handle, usage Usage, size int64) (*Work, error) {
	w := &Work{device: d}
	err := d.group("wgpuBufferMapAsync", func() { w.wait = C.dlx_wgpu_map(b.c(), usage.mode(), C.uint64_t(size)) })
	if err != nil {
		w.Drop()
		return nil, err
	}
	return w, nil
}

// Mapped returns the address of the first size bytes of a mapped buffer.
func Mapped(b Handle, usage Usage, size int64) (uintptr, error) {
	p := C.dlx_wgpu_mapped(b.c(), usage.mode(), C.size_t(size))
	if p == 0 {
		return 0, core.Errorf(core.ErrInvalid, "webgpu", "wgpuBufferGetMappedRange", "the buffer is not mapped")
	}
	return uintptr(p), nil
}

// Unmap ends a mapping, or one that has begun.
func Unmap(b Handle) { C.dlx_wgpu_unmap(b.c()) }
