package cudalike

import (
	"errors"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/core"
)

// kernels are the kernels for strided copies and for conversions in the primary context of a device. All devices that are opened for it
// share them.
//
// They are loaded when the first device is opened, since loading may wait for all work of the context. Work that is
// enqueued later may wait for something that the program does after a copy.
type kernels struct {
	mu        sync.Mutex
	uses      int // opened devices
	module    uintptr
	functions map[gpucopy.Shader]*kernel // all, or none; not changed while there are uses
	converter *kernel                    // there if functions are
	missing   error                      // why there are none
}

// kernel is one of the functions.
type kernel struct {
	function uintptr
	launched atomic.Bool
}

// keepHandlers is [dl.KeepHandlers] around the first launch: some drivers load or compile code only then.
func (k *kernel) keepHandlers() (putBack func()) {
	if k.launched.Load() || k.launched.Swap(true) {
		return func() {}
	}
	return dl.KeepHandlers()
}

// open loads the kernels, unless another opened device has loaded them. On success the caller must call close. If the
// driver cannot run any of the images, open succeeds, since other copies do without, and byKernel and CanConvert fail.
func (k *kernels) open(b *Backend, c Context, x Description) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.uses == 0 {
		err := k.load(b, c, b.Kernels(x))
		if k.missing = nil; errors.Is(err, core.ErrNotSupported) {
			err, k.missing = nil, err
		}
		if err != nil {
			return err
		}
	}
	k.uses++
	return nil
}

// load loads the first image that the driver takes. If it fails, nothing is loaded.
func (k *kernels) load(b *Backend, c Context, images []string) error {
	var s Status
	for _, image := range images {
		if k.module, s = c.LoadModule(image); s.Kind != WrongImage {
			break
		}
	}
	if err := b.check(s, "the kernels for strided copies and conversions"); err != nil {
		return err
	}
	k.functions = make(map[gpucopy.Shader]*kernel)
	find := func(name string) (*kernel, error) {
		f, s := c.Function(k.module, name)
		return &kernel{function: f}, b.check(s, "the kernel %s", name)
	}
	var err error
	if k.converter, err = find(gpuconvert.Kernel); err != nil {
		k.unload(c)
		return err
	}
	for _, shader := range gpucopy.Shaders() {
		if shader.Packed {
			continue // only for APIs that have no bytes in memory
		}
		if k.functions[shader], err = find(shader.String()); err != nil {
			k.unload(c)
			return err
		}
	}
	return nil
}

// unload unloads what is loaded.
func (k *kernels) unload(c Context) {
	if k.functions != nil {
		c.UnloadModule(k.module)
	}
	k.functions, k.converter = nil, nil
}

// close ends the use by an opened device, whose work is done. After the last use it unloads the kernels.
func (k *kernels) close(c Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.uses--; k.uses == 0 {
		k.unload(c)
	}
}

// kernelsOf returns the kernels of a device's primary context.
func (b *Backend) kernelsOf(ordinal int32) *kernels {
	k, _ := b.kernels.LoadOrStore(ordinal, new(kernels))
	return k.(*kernels)
}

// launch launches a kernel. q.mu is held.
func (q *queue) launch(k *kernel, groups [3]uint32, block uint32, dst, src uintptr, constants unsafe.Pointer) Status {
	defer k.keepHandlers()()
	return q.device.context.Launch(k.function, groups, block, dst, src, constants, q.raw)
}

// byKernel copies single words, in as many launches as needed.
func (w *work) byKernel() error {
	d, c := w.device, w.geometry
	// The plan assumes that memory starts at a multiple of its largest word.
	const word = 16
	dst, src := w.dst.base&^(word-1), w.src.base&^(word-1)
	c.Dst += int64(w.dst.base - dst)
	c.Src += int64(w.src.base - src)
	for part := range gpucopy.Plan(c, d.backend.Limits) {
		if d.kernels.missing != nil {
			return d.kernels.missing
		}
		s := w.queue.launch(d.kernels.functions[part.Shader], part.Groups, gpucopy.GroupSize, dst+uintptr(part.Dst.Offset), src+uintptr(part.Src.Offset), unsafe.Pointer(&part.Constants))
		if err := d.check(s, "the kernel %v", part.Shader); err != nil {
			return err
		}
	}
	return nil
}
