//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/core"
)

// known is what a device knows of a cl_mem, or of an address in USM.
type known struct {
	memories int     // open memories on it
	host     uintptr // its first byte for the host, 0 where the host cannot use it in place
	// mustHandOver says that the driver may keep a copy of host memory, so the memory must be handed over and
	// back: see [queue.handOver].
	mustHandOver bool
	external     bool // other APIs use it too: acquired and released around commands
	// word is the size of the largest word that is aligned in it. It is less than maxWord only for a cl_mem
	// that another library made over host memory. 0 means maxWord.
	word int64
	// before and after are how many bytes lie before and after the byte that offsets count from: bytes of the cl_mem, or of
	// the allocation in USM.
	before, after int64
	over          span // the host memory that it was made over; empty if the driver allocated its memory
}

// span is a range of host addresses, without high.
type span struct{ low, high uintptr }

func (a span) meets(b span) bool { return a.low < b.high && b.low < a.high }

// spanOf is the range of n bytes from an address on.
func spanOf(first uintptr, n int64) span { return span{first, first + uintptr(n)} }

// newMemory returns size bytes of mem as memory of the device. release releases mem, without d.Mu held. d.Mu
// is held.
func (d *device) newMemory(mem driver.Mem, offset, size int64, k known, release func()) core.Memory {
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

// Alloc takes a cl_mem from the pool, with offset 0. The stream in opts has no influence: memory is reused
// only after its earlier work is done. Alloc fails with ErrNotSupported for memory to be exported, since
// OpenCL only imports, and for HostVisible if the device has neither fine-grained SVM nor unified memory. It
// fails with ErrOutOfMemory also beyond the size of the device's largest cl_mem.
func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	if err := d.Enter(ctx, "Alloc"); err != nil {
		return core.Memory{}, err
	}
	if err := d.CheckOptions(opts, nil); err != nil {
		return core.Memory{}, err
	}
	if opts.HostVisible && !d.hostVisible() && d.usm != nil {
		return core.Memory{}, d.errorf(core.ErrNotSupported, "Alloc", "AllocOptions.HostVisible: the device has no USM that host and device use at once")
	}
	if opts.HostVisible && !d.hostVisible() {
		return core.Memory{}, d.errorf(core.ErrNotSupported, "Alloc", "AllocOptions.HostVisible: the device has neither fine-grained SVM nor unified memory")
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	m, err := d.alloc(size, opts.HostVisible || d.hostReaches())
	d.Count(err)
	return m, err
}

// alloc is Alloc with d.Mu held.
func (d *device) alloc(size int64, host bool) (core.Memory, error) {
	if err := d.CheckSize(size); err != nil {
		return core.Memory{}, err
	}
	switch {
	case size == 0:
		return d.newMemory(0, 0, 0, known{}, nil), nil
	case size > d.maxAlloc:
		return core.Memory{}, d.errorf(core.ErrOutOfMemory, "Alloc", "%d bytes were asked for, and CL_DEVICE_MAX_MEM_ALLOC_SIZE is %d: use several tensors", size, d.maxAlloc)
	}
	p, _, err := d.Take(d.classFor(size, host), size, nil)
	if err != nil {
		return core.Memory{}, err
	}
	b := p.Block
	k := known{host: b.host, mustHandOver: b.pages != 0, after: b.class.size}
	if b.host != 0 && d.usm == nil {
		k.over = spanOf(b.host, b.class.size)
	}
	return d.newMemory(b.mem, 0, size, k, func() {
		d.Mu.Lock()
		defer d.Mu.Unlock()
		d.Put(p, size, nil)
	}), nil
}

// lookUp returns what is known of a cl_mem, or of an address in USM. One that the device did not make, such as that
// of a DLPack tensor, must belong to the device's context. The device is held, or has open memory.
func (d *device) lookUp(call string, mem driver.Mem) (known, error) {
	d.Mu.Lock()
	k := d.known[mem]
	if k != nil {
		defer d.Mu.Unlock()
		return *k, nil
	}
	d.Mu.Unlock()
	if d.usm != nil {
		a, _, err := d.findAllocation(call, uintptr(mem))
		if err != nil {
			return known{}, err
		}
		return d.foreignUSM(uintptr(mem), a), nil
	}
	size, err := d.checkMem(call, uintptr(mem))
	if err != nil {
		return known{}, err
	}
	return foreignMem(mem, size), nil
}

// foreignMem returns what is known of a cl_mem of another library. That library keeps accesses of the host
// and the driver apart, if that is necessary.
func foreignMem(mem driver.Mem, size int64) known {
	k := known{after: size}
	if host, s := driver.Number(mem, driver.MemHostPtr); s == driver.Success && host != 0 {
		k.word, k.over = min(int64(host&-host), maxWord), spanOf(uintptr(host), size)
	}
	return k
}

// checkMem checks, as far as the API can tell, that a handle is a buffer of this context, and returns its
// size.
func (d *device) checkMem(call string, handle uintptr) (size int64, err error) {
	if err := d.checkObject(call, handle); err != nil {
		return 0, err
	}
	ask := func(p driver.Param, what string) (n uint64) {
		if err == nil {
			var s driver.Status
			n, s = driver.Number(driver.Mem(handle), p)
			err = d.check(s, "clGetMemObjectInfo", "%s of %#x", what, handle)
		}
		return n
	}
	kind, owner, bytes := ask(driver.MemType, "the type"), ask(driver.MemContext, "the context"), ask(driver.MemSize, "the size")
	switch {
	case err != nil:
		return 0, err
	case uint32(kind) != driver.MemTypeBuffer:
		return 0, d.errorf(core.ErrInvalid, call, "%#x is a cl_mem of type %#x and no buffer", handle, kind)
	case driver.Context(owner) != d.context:
		return 0, d.errorf(core.ErrInvalid, call, "%#x belongs to another cl_context: open the device by Wrap over that", handle)
	}
	return int64(bytes), nil
}

// inRoom fails if elements of t lie outside of its cl_mem, or of the allocation in USM. DLPack has no size, and a driver checks
// neither the addresses that it gets nor where a kernel reads and writes. The offset of a tensor without elements may be any.
func (d *device) inRoom(t *core.Tensor, handle uintptr, k known) error {
	if t.NumElements() == 0 {
		return nil
	}
	c, bits := copyplan.OfBits(t, t)
	r := c.ByteRange(bits)
	if r.DstLow < -k.before || r.DstHigh > k.after {
		return d.errorf(core.ErrLayout, "Copy", "the elements lie from byte %d to byte %d of %#x, which has %d bytes before that and %d after", r.DstLow, r.DstHigh, handle, k.before, k.after)
	}
	return nil
}
