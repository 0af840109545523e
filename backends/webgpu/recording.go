//go:build webgpu && linux && cgo

package webgpu

import (
	"iter"
	"runtime"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
)

// recording is work of the device that is submitted together. Its owner calls giveBack.
type recording struct {
	device *device
	call   string // the last one, which errors name
	steps  []func(*wgpu.Encoder)
	taken  []*buffer
}

// take returns a buffer of at least size bytes for the steps.
func (r *recording) take(usage wgpu.Usage, size int64) (*buffer, error) {
	b, err := r.device.spares.take(r.device, usage, size)
	if err == nil {
		r.taken = append(r.taken, b)
	}
	return b, err
}

// giveBack gives the buffers back that were taken. The steps may be unfinished: what uses the buffers next is submitted after them,
// and the library keeps the memory of a released buffer until then.
func (r *recording) giveBack() {
	for _, b := range r.taken {
		r.device.spares.giveBack(b)
	}
}

// add adds a step.
func (r *recording) add(call string, step func(*wgpu.Encoder)) {
	r.call = call
	r.steps = append(r.steps, step)
}

// submit submits the steps.
func (r *recording) submit() (*wgpu.Work, error) {
	return r.device.native.Submit(r.call, func(e *wgpu.Encoder) {
		for _, step := range r.steps {
			step(e)
		}
	})
}

// move adds a copy between two buffers.
func (r *recording) move(dst, src *buffer, c copyplan.Copy) error {
	if plain(c) {
		r.add("wgpuCommandEncoderCopyBufferToBuffer", func(e *wgpu.Encoder) {
			for to, from := range c.Pieces() {
				e.Copy(dst.handle, to, src.handle, from, c.Elem)
			}
		})
		return nil
	}
	list, err := r.device.launches(dst, src, gpucopy.Plan(c, r.device.limits))
	if err != nil {
		return err
	}
	return r.launch(list)
}

// launch adds dispatches.
func (r *recording) launch(list []launch) error {
	all := make([]byte, len(list)*constantsRoom)
	for i := range list {
		copy(all[i*constantsRoom:], list[i].constants)
	}
	constants, err := r.take(wgpu.Memory, int64(len(all)))
	if err != nil {
		return err
	}
	var pin runtime.Pinner
	pin.Pin(&all[0])
	defer pin.Unpin()
	if err := r.device.native.Write(constants.handle, 0, uintptr(unsafe.Pointer(&all[0])), int64(len(all))); err != nil {
		return err
	}
	r.add("wgpuComputePassEncoderDispatchWorkgroups", func(e *wgpu.Encoder) {
		for i, l := range list {
			e.Dispatch(l.pipeline, [3]wgpu.Range{l.dst, l.src, {Buffer: constants.handle, Offset: int64(i) * constantsRoom, Size: int64(len(l.constants))}}, l.groups)
		}
	})
	return nil
}

// launches returns the launches of a plan.
func (d *device) launches(dst, src *buffer, plan iter.Seq[gpucopy.Dispatch]) ([]launch, error) {
	var list []launch
	for p := range plan {
		pipeline, err := d.pipeline(p.Shader, p.Shader.WGSL)
		if err != nil {
			return nil, err
		}
		list = append(list, launch{
			pipeline, wgpu.Range{Buffer: dst.handle, Offset: p.Dst.Offset, Size: p.Dst.Size}, wgpu.Range{Buffer: src.handle, Offset: p.Src.Offset, Size: p.Src.Size},
			unsafe.Slice((*byte)(unsafe.Pointer(&p.Constants)), unsafe.Sizeof(p.Constants)), p.Groups,
		})
		if list[len(list)-1].leaves(dst, src) {
			return nil, d.noWholeWords()
		}
	}
	return list, nil
}

func (d *device) noWholeWords() error {
	return d.Errorf(core.ErrNotSupported, "Copy", "the size of an imported buffer is not a multiple of 4, and a shader reads and writes whole words")
}

// launch is one dispatch of a shader.
type launch struct {
	pipeline  wgpu.Handle
	dst, src  wgpu.Range
	constants []byte // at most constantsRoom
	groups    [3]uint32
}

// leaves reports whether a window ends after its buffer.
func (l *launch) leaves(dst, src *buffer) bool {
	return l.dst.Offset+l.dst.Size > dst.size || l.src.Offset+l.src.Size > src.size
}
