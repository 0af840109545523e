package cudalike

import (
	"errors"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/core"
)

// kernels are the kernels for strided copies in the primary context of a device. All devices that are opened for it
// share them.
//
// They are loaded when the first device is opened, since loading may wait for all work of the context. Work that is
// enqueued later may wait for something that the program does after a copy.
type kernels struct {
	mu        sync.Mutex
	uses      int // opened devices
	module    uintptr
	functions map[gpucopy.Shader]*kernel // all, or none; not changed while there are uses
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
// driver cannot run any of the images, open succeeds, since other copies do without, and byKernel fails.
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
	if err := b.check(s, "the kernels for strided copies"); err != nil {
		return err
	}
	k.functions = make(map[gpucopy.Shader]*kernel)
	for _, shader := range gpucopy.Shaders() {
		if shader.Packed {
			continue // only for APIs that have no bytes in memory
		}
		f, s := c.Function(k.module, shader.String())
		if err := b.check(s, "the kernel %v", shader); err != nil {
			k.unload(c)
			return err
		}
		k.functions[shader] = &kernel{function: f}
	}
	return nil
}

// unload unloads what is loaded.
func (k *kernels) unload(c Context) {
	if k.functions != nil {
		c.UnloadModule(k.module)
	}
	k.functions = nil
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
		k := d.kernels.functions[part.Shader]
		putBack := k.keepHandlers()
		s := d.context.Launch(k.function, part.Groups, gpucopy.GroupSize, dst+uintptr(part.Dst.Offset), src+uintptr(part.Src.Offset), unsafe.Pointer(&part.Constants), w.queue.raw)
		putBack()
		if err := d.check(s, "the kernel %v", part.Shader); err != nil {
			return err
		}
	}
	return nil
}
