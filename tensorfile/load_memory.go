package tensorfile

import (
	"context"
	"errors"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// allocate allocates the memory of a group. It makes a view of the host of what the host can access.
func (l *loader) allocate(ctx context.Context, g *group) error {
	g.turn.L = &g.mu
	if g.file != nil {
		return g.onMapping()
	}
	l.report.Allocated++
	if l.onHost {
		return g.onHost(ctx, l.device)
	}
	return l.onDevice(ctx, g)
}

// onMapping makes the mapped file the memory of a group.
func (g *group) onMapping() error {
	m := g.file.file.share.retain()
	t, err := core.Wrap(
		core.Memory{ID: core.CPU, Handle: address(m.data), Size: int64(len(m.data)), Owner: m, ReadOnly: m.unmap != nil},
		core.Spec{DType: core.TypeUint8, Shape: []int64{int64(len(m.data))}, Flags: core.FlagReadOnly},
	)
	if err != nil {
		m.Free()
		return err
	}
	g.mem = t
	return nil
}

// onHost allocates host memory. Straight bytes lie so that they can be read past the page cache without a copy, unless
// the elements would then lie as badly as in the file.
func (g *group) onHost(ctx context.Context, d core.Device) error {
	room := int64(0)
	unaligned := func(w *want) bool { return !w.e.InPlace }
	if s := g.straight; s != nil && s.report.Read == ReadDirect && !slices.ContainsFunc(g.wants, unaligned) {
		room = s.alignment - 1
	}
	var err error
	if g.mem, err = core.Empty(ctx, d, core.TypeUint8, []int64{g.size + room}, core.AllocOptions{}); err != nil {
		return err
	}
	if g.host, err = core.Mutable[uint8](g.mem); err != nil {
		return err
	}
	if room > 0 {
		g.at = mod(g.begin-addressOf(g.host), g.straight.alignment)
	}
	g.host = g.host[g.at:][:g.size]
	return nil
}

// mod returns the remainder of a by b that is not negative.
func mod(a, b int64) int64 { return (a%b + b) % b }

// onDevice allocates memory of a device. If the host can access it although nobody asked for that, it is as near to the
// host as memory can be, and the host writes it. Where that had to be asked for, it may be slower for the device.
func (l *loader) onDevice(ctx context.Context, g *group) error {
	var err error
	if g.mem, err = core.Empty(ctx, l.device, core.TypeUint8, []int64{g.size}, core.AllocOptions{}); err != nil || l.viewer == nil {
		return err
	}
	g.view, g.host, err = hostView(ctx, l.viewer, g.mem)
	if errors.Is(err, core.ErrNotSupported) {
		l.viewer, err = nil, nil
	}
	adviseHuge(g.host) // of a software device it is memory like any other
	return err
}

// hostView returns a view of a tensor of bytes for the host, which the caller closes, and the bytes.
func hostView(ctx context.Context, viewer core.HostViewer, t *core.Tensor) (*core.Tensor, []byte, error) {
	b, err := t.Buffer()
	if err != nil {
		return nil, nil, err
	}
	m, err := viewer.HostView(ctx, b)
	if err != nil {
		return nil, nil, err
	}
	view, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{t.NumElements()}})
	if err != nil {
		m.Free()
		return nil, nil, err
	}
	bytes, err := core.Mutable[uint8](view)
	if err != nil {
		_ = view.Close()
		return nil, nil, err
	}
	return view, bytes, nil
}

// closeGroups closes the memory of the groups. Tensors on it keep it.
func (l *loader) closeGroups() {
	for _, g := range l.groups {
		for _, t := range []*core.Tensor{g.view, g.mem} {
			if t != nil {
				_ = t.Close()
			}
		}
		g.view, g.mem, g.host = nil, nil, nil
	}
	for _, w := range l.whole {
		if w.done != nil {
			_ = w.done.Close()
			w.done = nil
		}
	}
}

// bytesOf makes a tensor of a range of bytes on the memory of t, a tensor of bytes.
func bytesOf(t *core.Tensor, from, n int64) (*core.Tensor, error) {
	return typedOf(t, from, core.Spec{DType: core.TypeUint8, Shape: []int64{n}})
}

// typedOf makes a tensor on the memory of t, a tensor of bytes. Its first element lies at a byte of t.
func typedOf(t *core.Tensor, from int64, spec core.Spec) (*core.Tensor, error) {
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	spec.Offset = t.Offset() - b.Memory().Offset + from
	return core.NewTensor(b, spec)
}

// stagingBuffer is a buffer through which bytes go to a device, or from it.
type stagingBuffer struct {
	mem  *core.Tensor // what the device copies from or to; the owner closes it
	view *core.Tensor // the host's view of mem; nil if mem is on the host
	data []byte       // the bytes, from a multiple of block on
	at   int64        // where they begin in mem
}

// The kinds of memory of buffers, for the report.
const (
	pinnedMemory  = "pinned"
	visibleMemory = "of the device, visible to the host"
	plainMemory   = "of the host"
)

// newStagingBuffer allocates a buffer of n bytes in the memory from which the device copies fastest, and returns its kind.
func newStagingBuffer(ctx context.Context, d core.Device, n int64) (*stagingBuffer, string, error) {
	pinned := map[core.DeviceType]core.DeviceType{core.DeviceCUDA: core.DeviceCUDAHost, core.DeviceROCM: core.DeviceROCMHost}
	if t, ok := pinned[d.ID().Type]; ok {
		if mem, err := core.Empty(ctx, d, core.TypeUint8, []int64{n + block}, core.AllocOptions{Type: t}); err == nil {
			s, err := onHostMemory(mem, n)
			return s, pinnedMemory, err
		}
	}
	if viewer, ok := core.As[core.HostViewer](d); ok {
		if mem, err := core.Empty(ctx, d, core.TypeUint8, []int64{n + block}, core.AllocOptions{HostVisible: true}); err == nil {
			if view, data, err := hostView(ctx, viewer, mem); err == nil {
				s := &stagingBuffer{mem: mem, view: view, at: mod(-addressOf(data), block)}
				s.data = data[s.at:][:n]
				return s, visibleMemory, nil
			}
			_ = mem.Close()
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	s, err := newHostBuffer(n)
	return s, plainMemory, err
}

// newHostBuffer allocates a buffer of n bytes of plain memory of the host.
func newHostBuffer(n int64) (*stagingBuffer, error) {
	m := newMapping(allocateHuge(n))
	mem, err := core.Wrap(core.Memory{ID: core.CPU, Handle: address(m.data), Size: n, Owner: m}, core.Spec{DType: core.TypeUint8, Shape: []int64{n}})
	if err != nil {
		m.Free()
		return nil, err
	}
	return onHostMemory(mem, n)
}

// onHostMemory makes a buffer of a tensor of bytes on the host, which it takes over also if it fails.
func onHostMemory(mem *core.Tensor, n int64) (*stagingBuffer, error) {
	data, err := core.Mutable[uint8](mem)
	if err != nil {
		_ = mem.Close()
		return nil, err
	}
	s := &stagingBuffer{mem: mem, at: mod(-addressOf(data), block)} // 0 for plain memory, which is aligned
	s.data = data[s.at:][:n]
	return s, nil
}

// close releases the buffer. A copy that still uses it keeps its memory.
func (s *stagingBuffer) close() {
	if s.view != nil {
		_ = s.view.Close()
	}
	_ = s.mem.Close()
}

// closeBuffer closes a buffer of a pipeline, if it was allocated.
func closeBuffer(b **stagingBuffer) {
	if *b != nil {
		(*b).close()
	}
}

// allocateBlocks returns n bytes of Go memory at a multiple of block.
func allocateBlocks(n int64) []byte {
	data := make([]byte, n+block)
	return data[mod(-addressOf(data), block):][:n:n]
}
