//go:build opencl && linux && cgo

package opencl

import (
	"context"

	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
)

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

// adopt makes size bytes of mem memory of the device; release gives mem back, without
// d.Mu held. d.Mu is held.
func (d *device) adopt(mem driver.Mem, offset, size int64, k known, release func()) core.Memory {
	m := core.Memory{ID: d.ID(), Handle: uintptr(mem), Offset: offset, Size: size}
	if mem == 0 {
		return d.HandOut(m, nil, release)
	}
	own := d.known[mem]
	if own == nil {
		own = &k
		d.known[mem] = own
	}
	own.memories++
	if own.host != 0 {
		m.Host = own.host + uintptr(offset)
	}
	return d.HandOut(m, func() {
		if own.memories--; own.memories == 0 {
			delete(d.known, mem)
		}
	}, release)
}

// Alloc takes a cl_mem from the pool, which starts at its first byte: Offset is 0.
// The stream in opts has no influence: memory is handed out only after its former
// use is done. It fails with ErrNotSupported for memory to be exported, since
// OpenCL only imports, and for HostVisible where the device has neither
// fine-grained SVM nor the host's memory; with ErrOutOfMemory also beyond the
// device's largest cl_mem.
func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	if err := d.Enter(ctx, "Alloc"); err != nil {
		return core.Memory{}, err
	}
	if err := d.CheckOptions(opts, nil); err != nil {
		return core.Memory{}, err
	}
	if opts.HostVisible && !d.hostVisible() {
		return core.Memory{}, errorf(core.ErrNotSupported, "Alloc", "AllocOptions.HostVisible: the device has neither fine-grained SVM nor unified memory")
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	m, err := d.alloc(size, opts.HostVisible || d.inReach())
	d.Count(err)
	return m, err
}

// alloc does it, with d.mu held.
func (d *device) alloc(size int64, host bool) (core.Memory, error) {
	if err := d.CheckSize(size); err != nil {
		return core.Memory{}, err
	}
	switch {
	case size == 0:
		return d.adopt(0, 0, 0, known{}, nil), nil
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
		d.Mu.Lock()
		defer d.Mu.Unlock()
		d.Put(b.class, b, size, nil)
	}), nil
}

// lookUp tells what is known of a cl_mem. One that the device did not hand out,
// as a tensor of DLPack has it, is asked for its context.
func (d *device) lookUp(call string, mem driver.Mem) (known, error) {
	d.Mu.Lock()
	k := d.known[mem]
	if k != nil {
		defer d.Mu.Unlock()
		return *k, nil
	}
	d.Mu.Unlock()
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
