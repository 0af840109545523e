//go:build opencl && linux && cgo

package opencl

import (
	"context"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var liveMemory = core.NewLiveCounter("opencl.Memory")

// known is what a device knows of a cl_mem that it handed out.
type known struct {
	memories int     // that stand on it
	host     uintptr // its first byte for the host, 0 where the host cannot use it in place
	// toldOf says that the driver may keep a copy of host memory, and must be told
	// whose turn it is: see [queue.handOver].
	toldOf   bool
	external bool // other APIs use it too: acquired and released around commands
	// word is the largest word whose addresses in it are aligned: less than maxWord
	// only for what another library made of memory of the host. 0 stands for maxWord.
	word int64
	over span // the memory of the host that the driver was given for it, empty if it has its own
}

// span is a range of addresses of the host, without high.
type span struct{ low, high uintptr }

func (a span) meets(b span) bool { return a.low < b.high && b.low < a.high }

// spanOf is n bytes from an address on.
func spanOf(first uintptr, n int64) span { return span{first, first + uintptr(n)} }

// memory owns a reference of a cl_mem, and what lies below it.
type memory struct {
	device  *device
	mem     driver.Mem // 0 for size 0
	release func()     // gives the cl_mem back; called without device.mu
	freed   atomic.Bool
}

var _ core.OrderedOwner = (*memory)(nil)

// Free gives the memory back. Another call does nothing.
func (m *memory) Free() {
	if m.freed.Swap(true) {
		return
	}
	d := m.device
	d.mu.Lock()
	if k := d.known[m.mem]; k != nil {
		if k.memories--; k.memories == 0 {
			delete(d.known, m.mem)
		}
	}
	d.mu.Unlock()
	m.release()
	liveMemory.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memories--
}

// FreeAfter gives the memory back when pending is done. [device.Close] waits for it.
func (m *memory) FreeAfter(pending []core.Event) { m.device.reaper.After(pending, m.Free) }

// adopt makes size bytes of mem memory of the device; release gives mem back. d.mu is held.
func (d *device) adopt(mem driver.Mem, offset, size int64, k known, release func()) core.Memory {
	if mem != 0 {
		if d.known[mem] == nil {
			d.known[mem] = &k
		}
		d.known[mem].memories++
	}
	d.memories++
	liveMemory.Add(1)
	m := core.Memory{
		ID: d.ID(), Device: d, Handle: uintptr(mem), Offset: offset, Size: size,
		Owner: &memory{device: d, mem: mem, release: release},
	}
	if known := d.known[mem]; known != nil && known.host != 0 {
		m.Host = known.host + uintptr(offset)
	}
	return m
}

// Alloc takes a cl_mem from the pool, which starts at its first byte: Offset is 0.
// The stream in opts has no influence: memory is handed out only after its former
// use is done. It fails with ErrNotSupported for memory to be exported, since
// OpenCL only imports, and for HostVisible where the device has neither
// fine-grained SVM nor the host's memory; with ErrOutOfMemory also beyond the
// device's largest cl_mem.
func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	const call = "Alloc"
	if err := d.gate.Enter(ctx); err != nil {
		return core.Memory{}, err
	}
	switch {
	case opts.Type != 0 && opts.Type != core.DeviceOpenCL:
		return core.Memory{}, errorf(core.ErrNotSupported, call, "AllocOptions.Type is %v; this device has memory of type %v only", opts.Type, core.DeviceOpenCL)
	case opts.Export != 0:
		return core.Memory{}, errorf(core.ErrNotSupported, call, "AllocOptions.Export is %v, but OpenCL cannot export memory: allocate where it can be exported, and import it here", opts.Export)
	case opts.HostVisible && !d.hostVisible():
		return core.Memory{}, errorf(core.ErrNotSupported, call, "AllocOptions.HostVisible: the device has neither fine-grained SVM nor unified memory")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m, err := d.alloc(size, opts.HostVisible || d.inReach())
	d.Count(err)
	return m, err
}

// alloc does it, with d.mu held.
func (d *device) alloc(size int64, host bool) (core.Memory, error) {
	switch {
	case d.closed:
		return core.Memory{}, closedDevice("Alloc")
	case size < 0:
		return core.Memory{}, errorf(core.ErrInvalid, "Alloc", "size is %d bytes", size)
	case size == 0:
		return d.adopt(0, 0, 0, known{}, func() {}), nil
	case size > d.maxAlloc:
		return core.Memory{}, errorf(core.ErrOutOfMemory, "Alloc", "%d bytes were asked for, and CL_DEVICE_MAX_MEM_ALLOC_SIZE is %d: use several tensors", size, d.maxAlloc)
	}
	b, _, err := d.Take(d.classFor(size, host), size, nil)
	if err != nil {
		return core.Memory{}, err
	}
	k := known{host: b.host, toldOf: b.pages != 0}
	if b.host != 0 {
		k.over = spanOf(b.host, b.class.size)
	}
	return d.adopt(b.mem, 0, size, k, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.Put(b.class, b, size, nil)
	}), nil
}

// lookUp tells what is known of a cl_mem. One that the device did not hand out,
// as a tensor of DLPack has it, is asked for its context.
func (d *device) lookUp(call string, mem driver.Mem) (known, error) {
	d.mu.Lock()
	k := d.known[mem]
	if k != nil {
		defer d.mu.Unlock()
		return *k, nil
	}
	d.mu.Unlock()
	size, err := d.checkMem(call, uintptr(mem))
	if err != nil {
		return known{}, err
	}
	return stranger(mem, size), nil
}

// stranger is what there is to know of a cl_mem that another library made: it
// takes turns with the host, if it must, by itself.
func stranger(mem driver.Mem, size int64) known {
	host, s := driver.Number(mem, driver.MemHostPtr)
	if s != driver.Success || host == 0 {
		return known{}
	}
	return known{word: min(int64(host&-host), maxWord), over: spanOf(uintptr(host), size)}
}

// checkMem proves, as far as the API can tell, that a handle is a buffer of this
// context, and returns its size.
func (d *device) checkMem(call string, handle uintptr) (size int64, err error) {
	if err := d.checkObject(call, handle); err != nil {
		return 0, err
	}
	ask := func(p driver.Param, what string) (n uint64) {
		if err == nil {
			var s driver.Status
			n, s = driver.Number(driver.Mem(handle), p)
			err = check(s, "clGetMemObjectInfo", "%s of %#x", what, handle)
		}
		return n
	}
	kind, owner, bytes := ask(driver.MemType, "the type"), ask(driver.MemContext, "the context"), ask(driver.MemSize, "the size")
	switch {
	case err != nil:
		return 0, err
	case uint32(kind) != driver.MemTypeBuffer:
		return 0, errorf(core.ErrInvalid, call, "%#x is a cl_mem of type %#x and no buffer", handle, kind)
	case driver.Context(owner) != d.context:
		return 0, errorf(core.ErrInvalid, call, "%#x belongs to another cl_context: open the device by opencl.Wrap over that", handle)
	}
	return int64(bytes), nil
}
