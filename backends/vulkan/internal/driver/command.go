//go:build vulkan && linux && cgo

package driver

// #include <stdlib.h>
// #include "shim.h"
// #cgo noescape dlx_record
// #cgo nocallback dlx_record
// #cgo noescape dlx_record_copies
// #cgo nocallback dlx_record_copies
// #cgo noescape dlx_submit
// #cgo nocallback dlx_submit
import "C"

import (
	"unsafe"

	vk "github.com/vulkan-go/vulkan"

	"github.com/dlx-go/dlx/backends/internal/dl"
)

// NewCommandPool makes a pool of command buffers that can be recorded repeatedly. The caller destroys it.
func (d *Device) NewCommandPool() (uint64, error) {
	info := newInfos()
	defer freeInfos(info)
	info.pool.sType = C.VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO
	info.pool.flags = C.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT | C.VK_COMMAND_POOL_CREATE_TRANSIENT_BIT
	info.pool.queueFamilyIndex = C.uint32_t(d.Family)
	var pool vk.CommandPool
	r := vk.CreateCommandPool(d.handle, vk.NewCommandPoolCreateInfoRef(unsafe.Pointer(&info.pool)), nil, &pool)
	return number(pool), failed(C.VkResult(r), "vkCreateCommandPool", "")
}

// DestroyCommandPool destroys a pool and its command buffers. No work may use them.
func (d *Device) DestroyCommandPool(pool uint64) {
	vk.DestroyCommandPool(d.handle, as[vk.CommandPool](pool), nil)
}

// NewCommand makes a command buffer of a pool.
func (d *Device) NewCommand(pool uint64) (uint64, error) {
	info := newInfos()
	defer freeInfos(info)
	info.commands.sType = C.VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO
	info.commands.commandPool = as[C.VkCommandPool](pool)
	info.commands.level = C.VK_COMMAND_BUFFER_LEVEL_PRIMARY
	info.commands.commandBufferCount = 1
	command := make([]vk.CommandBuffer, 1)
	r := vk.AllocateCommandBuffers(d.handle, vk.NewCommandBufferAllocateInfoRef(unsafe.Pointer(&info.commands)), command)
	return number(command[0]), failed(C.VkResult(r), "vkAllocateCommandBuffers", "")
}

// Operand is a buffer that a command reads or writes.
type Operand struct {
	Buffer uint64
	Owner  uint32 // the queue family that owns it between commands: OwnNone or another Own...
	Offset int64  // bytes, of what a shader is bound to
	Range  int64
}

// Region is a part of a copy: a VkBufferCopy.
type Region struct{ Src, Dst, Size int64 }

// Dispatch is a run of a pipeline over the two operands of a command.
type Dispatch struct {
	Pipeline *Pipeline
	Set      uint64
	Groups   [3]uint32
	Push     []byte
}

// Record fills a command buffer that is not in use. The command acquires operands that other queue families
// own, waits for everything that was submitted to the queue before, and copies the regions, or runs the
// dispatch if there is one. It then makes the result visible to the host, and releases the operands.
func (d *Device) Record(command uint64, dst, src Operand, regions []Region, run *Dispatch) error {
	job := C.dlx_job{
		command: C.uint64_t(command),
		dst:     C.uint64_t(dst.Buffer), src: C.uint64_t(src.Buffer),
		dst_owner: C.uint32_t(dst.Owner), src_owner: C.uint32_t(src.Owner),
	}
	var push []byte
	if run != nil {
		job.pipeline, job.layout, job.set = run.Pipeline.made.pipeline, run.Pipeline.made.layout, C.uint64_t(run.Set)
		job.dst_offset, job.dst_range = C.uint64_t(dst.Offset), C.uint64_t(dst.Range)
		job.src_offset, job.src_range = C.uint64_t(src.Offset), C.uint64_t(src.Range)
		for i, n := range run.Groups {
			job.groups[i] = C.uint32_t(n)
		}
		push = run.Push
	}
	r := C.dlx_record(d.shim, &job, C.uint32_t(len(regions)), unsafe.Pointer(unsafe.SliceData(regions)),
		C.uint32_t(len(push)), unsafe.Pointer(unsafe.SliceData(push)))
	return failed(r, "vkBeginCommandBuffer", "") // the other call that can fail is vkEndCommandBuffer, with the same codes
}

// Copy is one region of one buffer that is copied to another one.
type Copy struct {
	Dst, Src uint64
	Region
}

// RecordCopies is Record for copies between several buffers, none of which another queue family owns. The copies
// may run in any order.
func (d *Device) RecordCopies(command uint64, copies []Copy) error {
	r := C.dlx_record_copies(d.shim, C.uint64_t(command), C.uint32_t(len(copies)), (*C.dlx_region)(unsafe.Pointer(unsafe.SliceData(copies))))
	return failed(r, "vkBeginCommandBuffer", "") // as in Record
}

// The structs of Go and of C are the same.
const _ = -(unsafe.Sizeof(Copy{}) - C.sizeof_dlx_region)

// NewTimestamps makes a pool of timestamps. The caller destroys it.
func (d *Device) NewTimestamps(count int) (uint64, error) {
	var pool C.uint64_t
	r := C.dlx_times_new(d.shim, C.uint32_t(count), &pool)
	return uint64(pool), failed(r, "vkCreateQueryPool", "")
}

// DestroyTimestamps destroys a pool of timestamps that no work uses.
func (d *Device) DestroyTimestamps(pool uint64) { C.dlx_times_free(d.shim, C.uint64_t(pool)) }

// RecordTimestamp fills a command buffer that is not in use. The command waits for everything that was submitted to the
// queue before, and takes a timestamp.
func (d *Device) RecordTimestamp(command, pool uint64, index int) error {
	r := C.dlx_record_time(d.shim, C.uint64_t(command), C.uint64_t(pool), C.uint32_t(index))
	return failed(r, "vkBeginCommandBuffer", "") // as in Record
}

// Timestamp returns a timestamp that was taken.
func (d *Device) Timestamp(pool uint64, index int) (uint64, error) {
	var at C.uint64_t
	r := C.dlx_time(d.shim, C.uint64_t(pool), C.uint32_t(index), &at)
	return uint64(at), failed(r, "vkGetQueryPoolResults", "")
}

// Point is a value of a timeline.
type Point struct{ Timeline, Value uint64 }

// Submission is work for a queue.
type Submission struct {
	Queue   int     // 0 is the first queue, which others may use, too; the others are numbered up to Device.Others
	Waits   []Point // it runs when these are reached, and so does all that is submitted to the queue later
	Command uint64  // a command buffer; 0 for none
	First   Point   // what the work sets before Signal; nothing if Timeline is 0
	Signal  Point
}

// Submit submits work. When the work and all that was submitted to its queue before are done, First and then Signal
// are set. The values of Waits may be set by work that is submitted later, or never: the queue then stays blocked.
func (d *Device) Submit(s Submission) error {
	work := C.dlx_submission{
		command: C.uint64_t(s.Command),
		first:   C.dlx_point{C.uint64_t(s.First.Timeline), C.uint64_t(s.First.Value)},
		signal:  C.dlx_point{C.uint64_t(s.Signal.Timeline), C.uint64_t(s.Signal.Value)},
	}
	locked := C.int(0)
	switch {
	case s.Queue > 0:
		l := &d.others[s.Queue-1]
		l.mu.Lock()
		defer l.mu.Unlock()
		work.queue = C.uint64_t(l.handle)
	case d.lock != nil:
		d.lock.Lock()
		defer d.lock.Unlock()
		locked = 1
	}
	waits := (*C.dlx_point)(unsafe.Pointer(unsafe.SliceData(s.Waits)))
	return failed(C.dlx_submit(d.shim, locked, &work, C.uint32_t(len(s.Waits)), waits), "vkQueueSubmit", "")
}

// Pipeline is a compute pipeline over two storage buffers, destination and
// source at bindings 0 and 1, and push constants.
type Pipeline struct{ made C.dlx_pipeline }

// NewPipeline makes a pipeline of SPIR-V code, whose entry point is main. The caller destroys it.
func (d *Device) NewPipeline(code []uint32, push int) (*Pipeline, error) {
	defer dl.KeepHandlers()()
	p := new(Pipeline)
	r := C.dlx_pipeline_new(d.shim, C.uint64_t(4*len(code)), unsafe.Pointer(unsafe.SliceData(code)), C.uint32_t(push), &p.made)
	return p, failed(r, "vkCreateComputePipelines", "")
}

// DestroyPipeline destroys a pipeline that no work uses.
func (d *Device) DestroyPipeline(p *Pipeline) { C.dlx_pipeline_free(d.shim, &p.made) }

// NewSet makes a descriptor set for a pipeline, in a pool of its own, which the
// caller destroys.
func (d *Device) NewSet(p *Pipeline) (pool, set uint64, err error) {
	var cpool, cset C.uint64_t
	r := C.dlx_set_new(d.shim, &p.made, &cpool, &cset)
	return uint64(cpool), uint64(cset), failed(r, "vkAllocateDescriptorSets", "")
}

// DestroySet destroys the pool of a descriptor set that no work uses.
func (d *Device) DestroySet(pool uint64) { C.dlx_set_free(d.shim, C.uint64_t(pool)) }

// Calloc allocates zeroed C memory, which the caller frees by [Free].
func Calloc(size uintptr) unsafe.Pointer { return C.calloc(1, C.size_t(size)) }

// Free frees memory of [Calloc].
func Free(p unsafe.Pointer) { C.free(p) }
