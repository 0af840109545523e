package engine

import (
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// constants returns the bytes that a kernel gets. They are copied before c goes.
func constants(c *gpucopy.Constants) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(c)), unsafe.Sizeof(*c))
}

// kernels are the pipelines of a device that copy between any strides. Each is compiled on first use.
type kernels struct {
	mu   sync.Mutex
	made map[gpucopy.Shader]driver.ID // MTLComputePipelineState
}

// get returns the pipeline of a shader, which the kernels own.
func (k *kernels) get(d *device, s gpucopy.Shader) (driver.ID, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if id, ok := k.made[s]; ok {
		return id, nil
	}
	library, failed := d.driver.NewLibrary(d.id, s.MSL())
	if library == 0 {
		return 0, compilerError("newLibraryWithSource:options:error:", failed)
	}
	defer d.driver.Release(library)
	function := d.driver.NewFunction(library, s.String())
	if function == 0 {
		return 0, errorf(core.ErrNotSupported, "newFunctionWithName:", "the library has no function %v", s)
	}
	defer d.driver.Release(function)
	id, info, failed := d.driver.NewPipeline(d.id, function)
	if id == 0 {
		return 0, compilerError("newComputePipelineStateWithFunction:error:", failed)
	}
	if info.MaxThreads < gpucopy.GroupSize {
		d.driver.Release(id)
		return 0, errorf(core.ErrNotSupported, "maxTotalThreadsPerThreadgroup", "the kernel %v needs %d threads in a group, and this GPU has %d", s, gpucopy.GroupSize, info.MaxThreads)
	}
	k.made[s] = id
	return id, nil
}

func compilerError(call string, e *driver.Error) error {
	if e == nil {
		return noObject(call)
	}
	return &core.Error{Backend: name, Call: call, Code: int64(e.Code), Err: core.ErrNotSupported,
		Detail: "the kernels for strided copies do not compile (" + e.Domain + "): " + e.Text}
}

// release releases everything.
func (k *kernels) release(v driver.Driver) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range k.made {
		v.Release(id)
	}
}
