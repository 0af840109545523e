package engine

import (
	"sync"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// kernel is a function of Metal's language, which has two buffers and constants.
type kernel struct {
	name   string
	source func() string // of a library that has the function
	group  uint32        // threads of a threadgroup
}

// kernels are the pipelines of a device, by the names of their kernels. Each is compiled on first use.
type kernels struct {
	mu   sync.Mutex
	made map[string]driver.ID // MTLComputePipelineState
}

// get returns the pipeline of a kernel, which the kernels own.
func (k *kernels) get(d *device, x kernel) (driver.ID, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if id, ok := k.made[x.name]; ok {
		return id, nil
	}
	library, failed := d.driver.NewLibrary(d.id, x.source())
	if library == 0 {
		return 0, compilerError("newLibraryWithSource:options:error:", x, failed)
	}
	defer d.driver.Release(library)
	function := d.driver.NewFunction(library, x.name)
	if function == 0 {
		return 0, errorf(core.ErrNotSupported, "newFunctionWithName:", "the library has no function %s", x.name)
	}
	defer d.driver.Release(function)
	id, info, failed := d.driver.NewPipeline(d.id, function)
	if id == 0 {
		return 0, compilerError("newComputePipelineStateWithFunction:error:", x, failed)
	}
	if info.MaxThreads < x.group {
		d.driver.Release(id)
		return 0, errorf(core.ErrNotSupported, "maxTotalThreadsPerThreadgroup", "the kernel %s needs %d threads in a group, and this GPU has %d", x.name, x.group, info.MaxThreads)
	}
	k.made[x.name] = id
	return id, nil
}

func compilerError(call string, x kernel, e *driver.Error) error {
	if e == nil {
		return noObject(call)
	}
	return &core.Error{Backend: name, Call: call, Code: int64(e.Code), Err: core.ErrNotSupported,
		Detail: "the kernel " + x.name + " does not compile (" + e.Domain + "): " + e.Text}
}

// place is where a kernel finds a buffer: from an offset on.
type place struct {
	object *object
	offset int64
}

// dispatch encodes a launch of a kernel. The constants are copied.
func (e *encoding) dispatch(x kernel, dst, src place, constants []byte, groups [3]uint32) error {
	d := e.device
	pipeline, err := d.kernels.get(d, x)
	if err != nil {
		return err
	}
	compute, err := e.computes()
	if err != nil {
		return err
	}
	d.driver.SetPipeline(compute, pipeline)
	d.driver.SetBuffer(compute, dst.object.buffer, uint64(dst.offset), 0)
	d.driver.SetBuffer(compute, src.object.buffer, uint64(src.offset), 1)
	d.driver.SetBytes(compute, constants, 2)
	d.driver.Dispatch(compute, groups, [3]uint32{x.group, 1, 1})
	return nil
}

// release releases everything.
func (k *kernels) release(v driver.Driver) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range k.made {
		v.Release(id)
	}
}
