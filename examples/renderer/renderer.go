//go:build vulkan && linux && cgo

package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	vk "github.com/vulkan-go/vulkan"

	"github.com/dlx-go/dlx/backends/vulkan"
)

// renderer draws with Vulkan. Nothing in this file needs dlx, but for a word about vulkan-go.
type renderer struct {
	instance   vk.Instance
	physical   vk.PhysicalDevice
	device     vk.Device
	extensions []string // that are enabled
	family     uint32
	queue      vk.Queue
	lock       sync.Mutex // of queue

	buffer     vk.Buffer
	size       int64
	memory     vk.DeviceMemory
	offset     int64 // of the buffer in its memory
	memorySize int64
	memoryType uint32
	mapped     []uint32

	timeline vk.Semaphore
	pool     vk.CommandPool
}

// What a buffer is made with, for dlx and CUDA to use it.
const (
	bufferUsage = uint32(vk.BufferUsageTransferSrcBit | vk.BufferUsageTransferDstBit | vk.BufferUsageStorageBufferBit)
	exportTypes = uint32(vk.ExternalMemoryHandleTypeOpaqueFdBit)
)

// number returns a handle of Vulkan as a number.
func number[T vk.Instance | vk.PhysicalDevice | vk.Device | vk.Queue | vk.Buffer | vk.DeviceMemory | vk.Semaphore](handle T) uintptr {
	return *(*uintptr)(unsafe.Pointer(&handle))
}

// Structs that vulkan-go does not have.
type (
	features2 struct { // VkPhysicalDeviceFeatures2
		kind     uint32
		next     unsafe.Pointer
		features [55]uint32
	}
	moreFeatures struct { // VkPhysicalDeviceTimelineSemaphoreFeatures, and those of storage of 8 and 16 bits
		kind uint32
		next unsafe.Pointer
		has  [4]uint32
	}
	semaphoreType struct { // VkSemaphoreTypeCreateInfo
		kind    uint32
		next    unsafe.Pointer
		what    uint32
		initial uint64
	}
	timelineValues struct { // VkTimelineSemaphoreSubmitInfo
		kind      uint32
		next      unsafe.Pointer
		waits     uint32
		waitFor   *uint64
		signals   uint32
		signalled *uint64
	}
)

const (
	structFeatures2      = 1000059000
	structStorage16      = 1000083000
	structStorage8       = 1000177000
	structTimeline       = 1000207000
	structSemaphoreType  = 1000207002
	structTimelineValues = 1000207003
	typeTimeline         = 1
)

// newRenderer makes a renderer with a buffer of n pixels. The caller closes it.
func newRenderer(n int) (_ *renderer, err error) {
	defer holdCollector()()
	library, err := purego.Dlopen("libvulkan.so.1", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	loader, err := purego.Dlsym(library, "vkGetInstanceProcAddr")
	if err != nil {
		return nil, err
	}
	vk.SetGetInstanceProcAddr(*(*unsafe.Pointer)(unsafe.Pointer(&loader)))
	if err := vk.Init(); err != nil {
		return nil, err
	}
	vulkan.KeepVulkanGo() // vulkan-go is this program's: dlx leaves its functions as they are

	r := new(renderer)
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	for _, step := range []func() error{
		r.makeInstance,
		func() error { return r.makeDevice(library) },
		func() error { return r.makeBuffer(n) },
		r.makeTimeline,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// holdCollector keeps the garbage collector from running until release is called: vulkan-go copies slices of structs into
// memory that finalizers free, also while a call of Vulkan uses it.
func holdCollector() (release func()) {
	before := debug.SetGCPercent(-1)
	return func() { debug.SetGCPercent(before) }
}

// check returns the error of a call.
func check(call string, result vk.Result) error {
	if result != vk.Success {
		return fmt.Errorf("%s: VkResult %d", call, result)
	}
	return nil
}

func (r *renderer) makeInstance() error {
	info := vk.InstanceCreateInfo{SType: vk.StructureTypeInstanceCreateInfo, PApplicationInfo: &vk.ApplicationInfo{
		SType: vk.StructureTypeApplicationInfo, ApiVersion: vk.MakeVersion(1, 2, 0),
	}}
	var instance vk.Instance
	if err := check("vkCreateInstance", vk.CreateInstance(&info, nil, &instance)); err != nil {
		return err
	}
	r.instance = instance
	if err := vk.InitInstance(r.instance); err != nil {
		return err
	}
	count := uint32(1) // the first device is good enough here
	devices := make([]vk.PhysicalDevice, 1)
	if result := vk.EnumeratePhysicalDevices(r.instance, &count, devices); count == 0 {
		return fmt.Errorf("vkEnumeratePhysicalDevices finds no device: VkResult %d", result)
	}
	r.physical = devices[0]
	return nil
}

func (r *renderer) makeDevice(library uintptr) error {
	count := uint32(16)
	families := make([]vk.QueueFamilyProperties, count)
	vk.GetPhysicalDeviceQueueFamilyProperties(r.physical, &count, families)
	chosen := slices.IndexFunc(families[:count], func(f vk.QueueFamilyProperties) bool {
		f.Deref()
		return f.QueueFlags&vk.QueueFlags(vk.QueueComputeBit) != 0
	})
	if chosen < 0 {
		return errors.New("no queue computes")
	}
	r.family = uint32(chosen)

	var found uint32
	vk.EnumerateDeviceExtensionProperties(r.physical, "", &found, nil)
	all := make([]vk.ExtensionProperties, found)
	vk.EnumerateDeviceExtensionProperties(r.physical, "", &found, all)
	for _, e := range all {
		e.Deref()
		if name := vk.ToString(e.ExtensionName[:]); name == "VK_KHR_external_memory_fd" || name == "VK_KHR_external_semaphore_fd" {
			r.extensions = append(r.extensions, name)
		}
	}
	names := make([]string, len(r.extensions)) // vulkan-go wants the zero at the end
	for i, name := range r.extensions {
		names[i] = name + "\x00"
	}

	// vulkan.Wrap asks for timelineSemaphore, and for storage of 8 and 16 bits where the device has it.
	var getFeatures2 func(physical uintptr, features unsafe.Pointer)
	purego.RegisterLibFunc(&getFeatures2, library, "vkGetPhysicalDeviceFeatures2")
	storage8 := &moreFeatures{kind: structStorage8}
	storage16 := &moreFeatures{kind: structStorage16, next: unsafe.Pointer(storage8)}
	timeline := &moreFeatures{kind: structTimeline, next: unsafe.Pointer(storage16)}
	features := &features2{kind: structFeatures2, next: unsafe.Pointer(timeline)}
	var pins runtime.Pinner
	defer pins.Unpin()
	for _, p := range []any{storage8, storage16, timeline, features} {
		pins.Pin(p)
	}
	getFeatures2(number(r.physical), unsafe.Pointer(features))
	features.features = [55]uint32{}

	info := vk.DeviceCreateInfo{
		SType: vk.StructureTypeDeviceCreateInfo, PNext: unsafe.Pointer(features),
		QueueCreateInfoCount: 1, PQueueCreateInfos: []vk.DeviceQueueCreateInfo{{
			SType: vk.StructureTypeDeviceQueueCreateInfo, QueueFamilyIndex: r.family, QueueCount: 1, PQueuePriorities: []float32{1},
		}},
		EnabledExtensionCount: uint32(len(names)), PpEnabledExtensionNames: names,
	}
	var device vk.Device
	if err := check("vkCreateDevice", vk.CreateDevice(r.physical, &info, nil, &device)); err != nil {
		return err
	}
	r.device = device
	var queue vk.Queue
	vk.GetDeviceQueue(r.device, r.family, 0, &queue)
	r.queue = queue
	return nil
}

// makeBuffer makes a buffer in memory that can be exported. A renderer with a screen takes memory of the card; this one
// reads it on the host, too.
func (r *renderer) makeBuffer(n int) error {
	r.size = int64(4 * n)
	external := vk.ExternalMemoryBufferCreateInfo{SType: vk.StructureTypeExternalMemoryBufferCreateInfo, HandleTypes: vk.ExternalMemoryHandleTypeFlags(exportTypes)}
	defer external.Free()
	shared, _ := external.PassRef()
	info := vk.BufferCreateInfo{
		SType: vk.StructureTypeBufferCreateInfo, PNext: unsafe.Pointer(shared),
		Size: vk.DeviceSize(r.size), Usage: vk.BufferUsageFlags(bufferUsage), SharingMode: vk.SharingModeExclusive,
	}
	var buffer vk.Buffer
	if err := check("vkCreateBuffer", vk.CreateBuffer(r.device, &info, nil, &buffer)); err != nil {
		return err
	}
	r.buffer = buffer
	var need vk.MemoryRequirements
	vk.GetBufferMemoryRequirements(r.device, r.buffer, &need)
	need.Deref()
	var kinds vk.PhysicalDeviceMemoryProperties
	vk.GetPhysicalDeviceMemoryProperties(r.physical, &kinds)
	kinds.Deref()
	const wanted = vk.MemoryPropertyFlags(vk.MemoryPropertyHostVisibleBit | vk.MemoryPropertyHostCoherentBit)
	chosen := slices.IndexFunc(kinds.MemoryTypes[:kinds.MemoryTypeCount], func(t vk.MemoryType) bool {
		t.Deref()
		fits := need.MemoryTypeBits&1 != 0
		need.MemoryTypeBits >>= 1
		return fits && t.PropertyFlags&wanted == wanted
	})
	if chosen < 0 {
		return errors.New("no memory type suits the buffer")
	}
	// Allocators put many buffers into one memory. This one leaves room before its only buffer.
	r.offset = (1<<16 + int64(need.Alignment) - 1) / int64(need.Alignment) * int64(need.Alignment)
	r.memoryType, r.memorySize = uint32(chosen), r.offset+int64(need.Size)

	export := vk.ExportMemoryAllocateInfo{SType: vk.StructureTypeExportMemoryAllocateInfo, HandleTypes: vk.ExternalMemoryHandleTypeFlags(exportTypes)}
	defer export.Free()
	exported, _ := export.PassRef()
	allocate := vk.MemoryAllocateInfo{
		SType: vk.StructureTypeMemoryAllocateInfo, PNext: unsafe.Pointer(exported),
		AllocationSize: vk.DeviceSize(r.memorySize), MemoryTypeIndex: r.memoryType,
	}
	var memory vk.DeviceMemory
	if err := check("vkAllocateMemory", vk.AllocateMemory(r.device, &allocate, nil, &memory)); err != nil {
		return err
	}
	r.memory = memory
	if err := check("vkBindBufferMemory", vk.BindBufferMemory(r.device, r.buffer, r.memory, vk.DeviceSize(r.offset))); err != nil {
		return err
	}
	var p unsafe.Pointer
	if err := check("vkMapMemory", vk.MapMemory(r.device, r.memory, vk.DeviceSize(r.offset), vk.DeviceSize(r.size), 0, &p)); err != nil {
		return err
	}
	r.mapped = unsafe.Slice((*uint32)(p), n)
	return nil
}

func (r *renderer) makeTimeline() error {
	kind := &semaphoreType{kind: structSemaphoreType, what: typeTimeline}
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(kind)
	var timeline vk.Semaphore
	info := vk.SemaphoreCreateInfo{SType: vk.StructureTypeSemaphoreCreateInfo, PNext: unsafe.Pointer(kind)}
	if err := check("vkCreateSemaphore", vk.CreateSemaphore(r.device, &info, nil, &timeline)); err != nil {
		return err
	}
	r.timeline = timeline
	var pool vk.CommandPool
	pools := vk.CommandPoolCreateInfo{SType: vk.StructureTypeCommandPoolCreateInfo, QueueFamilyIndex: r.family}
	if err := check("vkCreateCommandPool", vk.CreateCommandPool(r.device, &pools, nil, &pool)); err != nil {
		return err
	}
	r.pool = pool
	return nil
}

// draw fills the buffer with a colour, gives it to others, and then sets the timeline to done.
func (r *renderer) draw(colour uint32, done uint64) error {
	return r.submit(0, done, func(c vk.CommandBuffer) {
		vk.CmdFillBuffer(c, r.buffer, 0, vk.DeviceSize(r.size), colour)
		r.pass(c, r.family, vk.QueueFamilyExternal, vk.PipelineStageTransferBit, vk.PipelineStageBottomOfPipeBit, vk.AccessTransferWriteBit, 0)
	})
}

// read takes the buffer back when the timeline has the value ready, and returns the pixels.
func (r *renderer) read(ready uint64) ([]uint32, error) {
	err := r.submit(ready, ready+1, func(c vk.CommandBuffer) {
		r.pass(c, vk.QueueFamilyExternal, r.family, vk.PipelineStageTopOfPipeBit, vk.PipelineStageHostBit, 0, vk.AccessHostReadBit)
	})
	if err != nil {
		return nil, err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.mapped, check("vkQueueWaitIdle", vk.QueueWaitIdle(r.queue))
}

// pass records that the buffer passes from one queue family to another.
func (r *renderer) pass(c vk.CommandBuffer, from, to uint32, before, after vk.PipelineStageFlagBits, wrote, reads vk.AccessFlagBits) {
	vk.CmdPipelineBarrier(c, vk.PipelineStageFlags(before), vk.PipelineStageFlags(after), 0, 0, nil, 1, []vk.BufferMemoryBarrier{{
		SType: vk.StructureTypeBufferMemoryBarrier, SrcAccessMask: vk.AccessFlags(wrote), DstAccessMask: vk.AccessFlags(reads),
		SrcQueueFamilyIndex: from, DstQueueFamilyIndex: to, Buffer: r.buffer, Size: vk.DeviceSize(r.size),
	}}, 0, nil)
}

// submit submits a command buffer, which waits for a value of the timeline and sets another one.
func (r *renderer) submit(wait, signal uint64, record func(vk.CommandBuffer)) error {
	defer holdCollector()()
	commands := make([]vk.CommandBuffer, 1)
	allocate := vk.CommandBufferAllocateInfo{SType: vk.StructureTypeCommandBufferAllocateInfo, CommandPool: r.pool, CommandBufferCount: 1}
	if err := check("vkAllocateCommandBuffers", vk.AllocateCommandBuffers(r.device, &allocate, commands)); err != nil {
		return err
	}
	begin := vk.CommandBufferBeginInfo{SType: vk.StructureTypeCommandBufferBeginInfo, Flags: vk.CommandBufferUsageFlags(vk.CommandBufferUsageOneTimeSubmitBit)}
	if err := check("vkBeginCommandBuffer", vk.BeginCommandBuffer(commands[0], &begin)); err != nil {
		return err
	}
	record(commands[0])
	if err := check("vkEndCommandBuffer", vk.EndCommandBuffer(commands[0])); err != nil {
		return err
	}
	values := &timelineValues{kind: structTimelineValues, waits: 1, waitFor: &wait, signals: 1, signalled: &signal}
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(values)
	pins.Pin(values.waitFor)
	pins.Pin(values.signalled)
	r.lock.Lock()
	defer r.lock.Unlock()
	return check("vkQueueSubmit", vk.QueueSubmit(r.queue, 1, []vk.SubmitInfo{{
		SType: vk.StructureTypeSubmitInfo, PNext: unsafe.Pointer(values),
		WaitSemaphoreCount: 1, PWaitSemaphores: []vk.Semaphore{r.timeline},
		PWaitDstStageMask:  []vk.PipelineStageFlags{vk.PipelineStageFlags(vk.PipelineStageAllCommandsBit)},
		CommandBufferCount: 1, PCommandBuffers: commands,
		SignalSemaphoreCount: 1, PSignalSemaphores: []vk.Semaphore{r.timeline},
	}}, vk.NullFence))
}

// close destroys everything. dlx has given the buffer and the timeline back.
func (r *renderer) close() {
	if r.device != nil {
		r.lock.Lock()
		vk.DeviceWaitIdle(r.device)
		r.lock.Unlock()
		vk.DestroyCommandPool(r.device, r.pool, nil)
		vk.DestroySemaphore(r.device, r.timeline, nil)
		vk.DestroyBuffer(r.device, r.buffer, nil)
		vk.FreeMemory(r.device, r.memory, nil)
		vk.DestroyDevice(r.device, nil)
	}
	if r.instance != nil {
		vk.DestroyInstance(r.instance, nil)
	}
}
