package cudalike

import (
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gather"
)

// kernels are the kernels for strided copies, compiled by the driver when one is first needed.
type kernels struct {
	mu        sync.Mutex
	module    uintptr
	functions map[gather.Shader]uintptr
}

// function returns a kernel.
func (k *kernels) function(d *device, s gather.Shader) (uintptr, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.functions[s]; f != 0 {
		return f, nil
	}
	if k.module == 0 {
		var status Status
		k.module, status = d.context.LoadModule(d.backend.Kernels)
		if err := d.check(status, "the kernels for strided copies"); err != nil {
			k.module = 0
			return 0, err
		}
		k.functions = make(map[gather.Shader]uintptr)
	}
	f, status := d.context.Function(k.module, s.String())
	if err := d.check(status, "%v", s); err != nil {
		return 0, err
	}
	k.functions[s] = f
	return f, nil
}

// unload gives the module back. No work is using it.
func (k *kernels) unload(c Context) {
	if k.module != 0 {
		c.UnloadModule(k.module)
	}
}

// byKernel copies single words, in as many launches as the kernel needs.
func (w *transfer) byKernel() error {
	d, c := w.device, w.geometry
	// The plan takes memory to start at multiples of its largest word.
	const word = 16
	dst, src := w.dst.base&^(word-1), w.src.base&^(word-1)
	c.Dst += int64(w.dst.base - dst)
	c.Src += int64(w.src.base - src)
	for part := range gather.Plan(c, d.backend.Limits) {
		f, err := d.kernels.function(d, part.Shader)
		if err != nil {
			return err
		}
		s := d.context.Launch(f, part.Groups, gather.GroupSize, dst+uintptr(part.Dst.Offset), src+uintptr(part.Src.Offset), unsafe.Pointer(&part.Constants), w.queue.raw)
		if err := d.check(s, "%v", part.Shader); err != nil {
			return err
		}
	}
	return nil
}
