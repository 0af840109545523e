//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"slices"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/core"
)

// findUSM fills in what depends on unified shared memory. Without it, l.usm stays nil.
func (l *location) findUSM(extensions []string) {
	l.fineGrained = false
	can := func(p driver.Param) (bits uint64) {
		bits, s := driver.Number(l.handle, p)
		if s != driver.Success || bits&driver.USMAccess == 0 {
			return 0
		}
		return bits
	}
	if !slices.Contains(extensions, driver.USMExtension) || can(driver.DeviceUSMDevice) == 0 {
		return
	}
	l.usm, _ = driver.USMOf(l.platform)
	// Without concurrent access the host must keep off while the device reads, and dlx lets both read.
	switch {
	case can(driver.DeviceUSMShared)&driver.USMConcurrent != 0:
		l.visible = driver.USMShared
	case can(driver.DeviceUSMHost)&driver.USMConcurrent != 0:
		l.visible = driver.USMHost
	}
	l.fineGrained = l.visible != 0
	l.properties.Alignment = leastAlignment
}

// surveyUSM adds the features of unified shared memory.
func (l *location) surveyUSM() {
	p := &l.properties
	p.AddFeature("usm_host_visible", 0, l.fineGrained, "neither shared nor host USM has CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ACCESS_INTEL")
	p.AddFeature("map_host", core.CapMapHost, false, "memory of the host is not an allocation of the cl_context, for which receivers of kDLOneAPI ask the driver: allocate with AllocOptions.HostVisible")
	p.AddFeature("host_view", core.CapHostView, l.fineGrained, "no USM that host and device use at once: see usm_host_visible")
	p.AddFeature("export_opaque_fd", core.CapExportMemory, false, "OpenCL has no call that exports memory: allocate with Vulkan or CUDA, and copy")
	p.AddFeature("import_opaque_fd", core.CapImportMemory, false, "OpenCL imports descriptors as cl_mem only: use the device of the backend opencl")
}

// makeUSM makes a block of shared or host USM if the host uses it too, else of device USM.
func (d *device) makeUSM(c class) (b block, err error) {
	kind, call := driver.USMDevice, "clDeviceMemAllocINTEL"
	switch {
	case c.host && d.visible == driver.USMHost:
		kind, call = driver.USMHost, "clHostMemAllocINTEL"
	case c.host:
		kind, call = driver.USMShared, "clSharedMemAllocINTEL"
	}
	// Drivers need not know of an alignment beyond their largest type's, and PoCL 6 ignores all.
	size := c.size + leastAlignment
	p, s := d.usm.Alloc(kind, d.context, d.handle, size, 0)
	if err := d.check(s, call, "%d bytes", size); err != nil {
		return block{}, err
	}
	first := (p + leastAlignment - 1) &^ (leastAlignment - 1)
	b = block{class: c, mem: driver.Mem(first), allocation: p}
	if c.host {
		b.host = first
	}
	return b, nil
}

// findAllocation returns what the driver knows of an address, and how many bytes of the allocation are at the address and after
// it. It fails unless an allocation of this context has the address.
func (d *device) findAllocation(call string, p uintptr) (a driver.Allocation, rest int64, err error) {
	a, s := d.usm.Find(d.context, p)
	if err := d.check(s, "clGetMemAllocInfoINTEL", "the allocation of %#x", p); err != nil {
		return a, 0, err
	}
	before := int64(p - a.Base)
	switch {
	case a.Kind == driver.USMUnknown:
		return a, 0, d.errorf(core.ErrInvalid, call, "%#x is not in an allocation of this cl_context: open the device by Wrap over the cl_context of the allocation (in Python: dlx.adopt_sycl_context); memory of malloc is the host's", p)
	case before < 0 || before > a.Size:
		return a, 0, d.errorf(core.ErrInvalid, call, "the driver says that %#x is in an allocation of %d bytes at %#x", p, a.Size, a.Base)
	case a.Device != 0 && a.Device != d.handle:
		return a, 0, d.errorf(core.ErrInvalid, call, "%#x is in an allocation of another device, %#x", p, uintptr(a.Device))
	}
	return a, a.Size - before, nil
}

// foreignUSM returns what is known of an address in an allocation of another library.
func (d *device) foreignUSM(p uintptr, a driver.Allocation) known {
	before := int64(p - a.Base)
	k := known{word: min(int64(p&-p), maxWord), before: before, after: a.Size - before}
	if a.Kind == driver.USMHost || a.Kind == driver.USMShared && d.visible == driver.USMShared {
		k.host = p
	}
	return k
}

// importUSM is ImportPointer for an address. The device is held.
func (d *device) importUSM(call string, p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	a, rest, err := d.findAllocation(call, p)
	if err != nil {
		return core.Memory{}, err
	}
	if size > rest {
		return core.Memory{}, d.errorf(core.ErrInvalid, call, "size is %d bytes, and the allocation has %d from %#x on", size, rest, p)
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.newMemory(driver.Mem(p), 0, size, d.foreignUSM(p, a), func() {
		if owner != nil {
			owner.Free()
		}
	}), nil
}
