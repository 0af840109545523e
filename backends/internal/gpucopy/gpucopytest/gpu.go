//go:build vulkan && linux && cgo

package gpucopytest

// #cgo LDFLAGS: -ldl
// #include "gpu.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
)

// GPU is the first Vulkan device. It is for one goroutine.
type GPU struct {
	handle    *C.gpu
	limits    C.gpu_limits
	pipelines map[gpucopy.Shader]C.uint64_t
}

// Buffer is a buffer in memory that the host can address.
type Buffer struct {
	gpu    *GPU
	handle C.gpu_buffer
	size   int
}

// Open opens the device, which the caller closes. Validation is for tests: it makes
// everything slower.
func Open(validate bool) (*GPU, error) {
	g := &GPU{pipelines: map[gpucopy.Shader]C.uint64_t{}}
	var step *C.char
	layers := C.int(0)
	if validate {
		layers = 1
	}
	if r := C.gpu_open(&g.handle, layers, &step); r != 0 {
		if g.handle != nil {
			C.gpu_close(g.handle)
		}
		return nil, fmt.Errorf("%s: VkResult %d", C.GoString(step), r)
	}
	C.gpu_get_limits(g.handle, &g.limits)
	return g, nil
}

// Close closes the device; its buffers must be freed.
func (g *GPU) Close() { C.gpu_close(g.handle) }

// Messages is how many messages the validation layer gave, and the first of them.
func (g *GPU) Messages() (int, string) {
	var text *C.char
	n := C.gpu_messages(g.handle, &text)
	return int(n), C.GoString(text)
}

// Limits are those of the device, with all features that it has.
func (g *GPU) Limits() gpucopy.Limits {
	l := g.limits
	return gpucopy.Limits{
		StorageRange:    int64(l.storage_range),
		OffsetAlignment: int64(l.offset_alignment),
		Groups:          [3]uint32{uint32(l.groups[0]), uint32(l.groups[1]), uint32(l.groups[2])},
		Storage8:        l.storage8 != 0,
		Storage16:       l.storage16 != 0,
		Tiles:           l.is_cpu == 0,
	}
}

// Buffer makes a buffer, which the caller frees.
func (g *GPU) Buffer(size int) (*Buffer, error) {
	b := &Buffer{gpu: g, size: size}
	if r := C.gpu_make_buffer(g.handle, C.uint64_t(size), &b.handle); r != 0 {
		return nil, fmt.Errorf("a buffer of %d bytes: VkResult %d", size, r)
	}
	return b, nil
}

// Free frees the buffer.
func (b *Buffer) Free() { C.gpu_free_buffer(b.gpu.handle, &b.handle) }

// Bytes is the memory of the buffer, until Free.
func (b *Buffer) Bytes() []byte { return unsafe.Slice((*byte)(b.handle.host), b.size) }

// Dispatch runs shaders, and waits for them.
func (g *GPU) Dispatch(dst, src *Buffer, plan []gpucopy.Dispatch) error {
	list := make([]C.gpu_dispatch, len(plan))
	for i, p := range plan {
		pipeline, err := g.pipeline(p.Shader)
		if err != nil {
			return err
		}
		list[i] = C.gpu_dispatch{
			pipeline:   pipeline,
			dst_offset: C.uint64_t(p.Dst.Offset), dst_size: C.uint64_t(p.Dst.Size),
			src_offset: C.uint64_t(p.Src.Offset), src_size: C.uint64_t(p.Src.Size),
			constants: *(*[30]C.uint32_t)(unsafe.Pointer(&plan[i].Constants)),
			groups:    [3]C.uint32_t{C.uint32_t(p.Groups[0]), C.uint32_t(p.Groups[1]), C.uint32_t(p.Groups[2])},
		}
	}
	return g.run(dst, src, list, nil)
}

// Region is one part of a plain copy, in bytes.
type Region struct {
	Dst, Src, Size int64
}

// Copy makes plain copies, and waits for them.
func (g *GPU) Copy(dst, src *Buffer, regions []Region) error {
	list := make([]C.gpu_region, len(regions))
	for i, r := range regions {
		list[i] = C.gpu_region{C.uint64_t(r.Src), C.uint64_t(r.Dst), C.uint64_t(r.Size)}
	}
	return g.run(dst, src, nil, list)
}

func (g *GPU) run(dst, src *Buffer, dispatches []C.gpu_dispatch, regions []C.gpu_region) error {
	r := C.gpu_run(g.handle, &dst.handle, &src.handle,
		unsafe.SliceData(dispatches), C.uint32_t(len(dispatches)),
		unsafe.SliceData(regions), C.uint32_t(len(regions)))
	if r != 0 {
		return fmt.Errorf("vkQueueSubmit: VkResult %d", r)
	}
	return nil
}

// pipeline makes the pipeline of a shader when it is used for the first time.
func (g *GPU) pipeline(s gpucopy.Shader) (C.uint64_t, error) {
	if p, ok := g.pipelines[s]; ok {
		return p, nil
	}
	code := s.SPIRV()
	var p C.uint64_t
	if r := C.gpu_make_pipeline(g.handle, (*C.uint32_t)(unsafe.Pointer(&code[0])), C.size_t(4*len(code)), &p); r != 0 {
		return 0, fmt.Errorf("a pipeline of %v: VkResult %d", s, r)
	}
	g.pipelines[s] = p
	return p, nil
}
