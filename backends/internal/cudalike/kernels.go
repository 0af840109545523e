package cudalike

import (
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gather"
)

// kernels are the kernels for strided copies. The driver compiles them when one is first needed.
type kernels struct {
	mu        sync.Mutex
	module    uintptr
	functions map[gather.Shader]uintptr
}

// function returns the kernel for s.
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
	if err := d.check(status, "the kernel %v", s); err != nil {
		return 0, err
	}
	k.functions[s] = f
	return f, nil
}

// unload unloads the kernels. No work uses them.
func (k *kernels) unload(c Context) {
	if k.module != 0 {
		c.UnloadModule(k.module)
	}
}

// byKernel copies single words, in as many launches as needed.
func (w *work) byKernel() error {
	d, c := w.device, w.geometry
	// The plan assumes that memory starts at a multiple of its largest word.
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
		if err := d.check(s, "the kernel %v", part.Shader); err != nil {
			return err
		}
	}
	return nil
}
