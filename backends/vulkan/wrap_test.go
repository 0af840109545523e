//go:build vulkan && linux && cgo

package vulkan

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	vk "github.com/vulkan-go/vulkan"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// counting is a lock of a renderer, which tells how often it was taken.
type counting struct {
	sync.Mutex
	n atomic.Int32
}

func (c *counting) Lock() {
	c.n.Add(1)
	c.Mutex.Lock()
}

// renderer is another library that uses Vulkan: it owns a VkDevice and a VkBuffer,
// made by vulkan-go.
type renderer struct {
	handles Handles
	device  vk.Device
	buffer  vk.Buffer
	memory  vk.DeviceMemory
	mapped  []byte
	all     Buffer // what it knows of its VkBuffer
}

// rendererBytes are those of the renderer's VkBuffer, which begins rendererOffset bytes from the start of its memory.
const rendererBytes, rendererOffset = 8192, 4096

// newRenderer makes one beside an opened device of dlx, whose instance and physical
// device it uses.
func newRenderer(t *testing.T, beside *device) *renderer {
	t.Helper()
	own, err := driver.NewDevice(beside.physical)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	handle := own.Handle()
	r := &renderer{device: *(*vk.Device)(unsafe.Pointer(&handle))}
	r.handles = Handles{
		Instance: uintptr(own.Instance()), PhysicalDevice: uintptr(beside.physical.Handle), Device: uintptr(handle),
		Queue: uintptr(own.Queue), Family: own.Family, Extensions: []string{driver.ExternalMemoryFD},
	}
	const exported = vk.ExternalMemoryHandleTypeFlags(vk.ExternalMemoryHandleTypeOpaqueFdBit)
	external := vk.ExternalMemoryBufferCreateInfo{SType: vk.StructureTypeExternalMemoryBufferCreateInfo, HandleTypes: exported}
	defer external.Free()
	chained, _ := external.PassRef()
	info := vk.BufferCreateInfo{
		SType: vk.StructureTypeBufferCreateInfo, Size: rendererBytes, SharingMode: vk.SharingModeExclusive,
		Usage: vk.BufferUsageFlags(vk.BufferUsageTransferSrcBit | vk.BufferUsageTransferDstBit | vk.BufferUsageStorageBufferBit),
		PNext: unsafe.Pointer(chained),
	}
	defer info.Free()
	var need vk.MemoryRequirements
	check := func(call string, r vk.Result) {
		t.Helper()
		if r != vk.Success {
			t.Fatalf("%s: %d", call, r)
		}
	}
	var buffer vk.Buffer // not r's, which lies among Go pointers
	var memory vk.DeviceMemory
	check("vkCreateBuffer", vk.CreateBuffer(r.device, &info, nil, &buffer))
	r.buffer = buffer
	vk.GetBufferMemoryRequirements(r.device, r.buffer, &need)
	need.Deref()
	export := vk.ExportMemoryAllocateInfo{SType: vk.StructureTypeExportMemoryAllocateInfo, HandleTypes: exported}
	defer export.Free()
	behind, _ := export.PassRef()
	allocate := vk.MemoryAllocateInfo{SType: vk.StructureTypeMemoryAllocateInfo, AllocationSize: rendererOffset + need.Size,
		MemoryTypeIndex: uint32(beside.findType(visible, need.MemoryTypeBits)), PNext: unsafe.Pointer(behind)}
	need.Free()
	defer allocate.Free()
	check("vkAllocateMemory", vk.AllocateMemory(r.device, &allocate, nil, &memory))
	r.memory = memory
	check("vkBindBufferMemory", vk.BindBufferMemory(r.device, r.buffer, r.memory, rendererOffset))
	var p unsafe.Pointer
	check("vkMapMemory", vk.MapMemory(r.device, r.memory, rendererOffset, vk.DeviceSize(vk.WholeSize), 0, &p))
	r.mapped = unsafe.Slice((*byte)(p), rendererBytes)
	r.all = Buffer{
		Buffer: bits(buffer), Memory: bits(memory), MemoryOffset: rendererOffset, MemorySize: int64(allocate.AllocationSize),
		Size: rendererBytes, Mapped: uintptr(p), MemoryType: allocate.MemoryTypeIndex, ExportTypes: uint32(exported), Usage: driver.Usage,
	}
	t.Cleanup(func() {
		vk.DestroyBuffer(r.device, r.buffer, nil)
		vk.FreeMemory(r.device, r.memory, nil)
	})
	return r
}

// bits returns a handle of Vulkan as a number.
func bits[T vk.Buffer | vk.DeviceMemory | vk.Semaphore](handle T) uint64 {
	return *(*uint64)(unsafe.Pointer(&handle))
}

// tensor names the renderer's buffer as another library would, by a DLVulkanBuffer.
func (r *renderer) tensor(t *testing.T, d core.Device) *core.Tensor {
	t.Helper()
	o := &object{buffer: r.all.Buffer, size: rendererBytes, sharedWith: driver.OwnNone}
	c := newDescriptor(inner(d).driver, o)
	freed := false
	m, err := d.(core.PointerImporter).ImportPointer(uintptr(cAddress(c)), rendererBytes, core.FreeFunc(func() { freed = true }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if freeDescriptor(c); !freed {
			t.Error("the owner was not told that the buffer is not used any more")
		}
	})
	return keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{rendererBytes}}))
}

func TestADeviceOverARenderersVkDevice(t *testing.T) {
	beside := opened(t)
	for _, locked := range []bool{false, true} {
		r := newRenderer(t, inner(beside))
		lock := new(counting)
		if locked {
			r.handles.Lock = lock
		}
		d, err := Wrap(context.Background(), r.handles)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		shared := r.tensor(t, d)
		mine := row(t, d, rendererBytes, core.AllocOptions{})
		content := pattern(rendererBytes, 3)
		put(t, d, mine, content)
		if err := d.Copy(t.Context(), nil, shared, mine); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(r.mapped, content) {
			t.Error("the renderer does not see what dlx wrote to its VkBuffer")
		}
		copy(r.mapped, pattern(rendererBytes, 4))
		if got := get(t, d, shared); !bytes.Equal(got, r.mapped) {
			t.Error("dlx does not see what the renderer wrote to its VkBuffer")
		}
		if locked != (lock.n.Load() > 0) {
			t.Errorf("the renderer's lock was taken %d times", lock.n.Load())
		}
		b, offset, err := BufferOf(shared)
		if err != nil || offset != 0 || b.Device != r.handles.Device || b.Size != rendererBytes {
			t.Errorf("BufferOf gives %+v, %d, error %v", b, offset, err)
		}
		// The buffer belongs to another VkDevice than that of beside.
		handle, _ := shared.Buffer()
		_, err = beside.(core.PointerImporter).ImportPointer(handle.Memory().Handle, 16, nil)
		wantError(t, err, core.ErrInvalid, "import of a VkBuffer of another VkDevice")
	}
}

func TestWrapRefusesHandlesThatAreMissing(t *testing.T) {
	good := Handles{Instance: 8, PhysicalDevice: 8, Device: 8, Queue: 8}
	for rule, change := range map[string]func(*Handles){
		"no VkInstance":       func(h *Handles) { h.Instance = 0 },
		"no VkPhysicalDevice": func(h *Handles) { h.PhysicalDevice = 0 },
		"no VkDevice":         func(h *Handles) { h.Device = 0 },
		"no VkQueue":          func(h *Handles) { h.Queue = 0 },
		"a negative family":   func(h *Handles) { h.Family = -1 },
		"a negative index":    func(h *Handles) { h.Index = -1 },
	} {
		h := good
		change(&h)
		_, err := Wrap(context.Background(), h)
		wantError(t, err, core.ErrInvalid, rule)
	}
}
