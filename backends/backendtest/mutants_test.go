package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

var (
	closesAnyway = hooks{close: func(*device) error { return nil }}
	freesEarly   = gives(0, func(_ *device, m *core.Memory) { m.Owner = hasty{m.Owner} })
)

func changesProperties(change func(*core.Properties)) hooks { return hooks{properties: change} }

var memoryMutants = []mutant[hooks]{
	{"wrong alignment", "alloc/alignment", "not aligned to 256",
		gives(8, func(_ *device, m *core.Memory) { m.Handle += 8 })},
	{"one byte too few", "alloc/sizes", "Alloc(1): size 0",
		gives(0, func(_ *device, m *core.Memory) { m.Size-- })},
	{"hands out the same memory twice", "alloc/own-bytes", "live at once",
		hooks{alloc: (*device).sameMemory}},
	{"refuses empty memory", "alloc/zero", "size is 0",
		refuses(func(size int64, _ core.AllocOptions) error {
			if size == 0 {
				return core.Errorf(core.ErrInvalid, "mutant", "Alloc", "size is 0")
			}
			return nil
		})},
	{"takes a negative size for 0", "alloc/negative", "error <nil>",
		asks(func(size *int64, _ *core.AllocOptions) { *size = max(*size, 0) })},
	{"untyped errors", "alloc/absurd", "not a *core.Error",
		refuses(func(size int64, _ core.AllocOptions) error {
			if size > 1<<40 {
				return fmt.Errorf("%w: %d bytes", core.ErrOutOfMemory, size)
			}
			return nil
		})},
	{"ignores the type asked for", "alloc/unknown-type", "Alloc of type hexagon: error <nil>",
		asks(func(_ *int64, o *core.AllocOptions) { o.Type = 0 })},
	{"ignores that memory is to be exported", "alloc/unknown-export", "error <nil>",
		asks(func(_ *int64, o *core.AllocOptions) { o.Export = 0 })},
	{"leaks memory that was never wrapped", "alloc/free-without-tensor", "with nothing open on it",
		gives(0, func(d *device, m *core.Memory) {
			d.later(m.Free)
			m.Owner = core.FreeFunc(func() {})
		})},
	{"frees too early", "lifetime/ordered-release", "what was copied from the memory before it was freed", freesEarly},
	{"closes with memory open", "device/close-refused-while-memory-is-open", "Close with memory open: error <nil>", closesAnyway},
	{"closes with a stream open", "device/close-refused-while-a-stream-is-open", "Close with a stream open: error <nil>", closesAnyway},
	{"takes two calls of Close for two streams", "device/close-refused-while-a-stream-is-open", "after another one was closed twice: error <nil>",
		hooks{
			stream: streamHooks{close: func(d *device, s core.Stream) error {
				d.calls.Add(1)
				return s.Close()
			}},
			close: func(d *device) error {
				if d.calls.Load() == 2 {
					return nil
				}
				return d.Close()
			},
		}},
	{"closes once only", "device/close-twice", "Close number",
		hooks{close: func(d *device) error {
			if err := d.Copy(context.Background(), nil, nil, nil); errors.Is(err, core.ErrClosed) {
				return err
			}
			return d.Close()
		}}},
	{"tells nobody that it closes", "device/close-hooks", "Close with memory open that a hook frees",
		hooks{beforeClose: func(*device, func()) func() { return func() {} }}},
	{"forgets that a hook was cancelled", "device/cancelled-close-hook", "whose hook was cancelled: error <nil>",
		hooks{beforeClose: func(d *device, f func()) func() {
			d.BeforeClose(f)
			return func() {}
		}}},
	{"ignores that the host is to see memory", "host-view/unsupported", "error <nil>",
		asks(func(_ *int64, o *core.AllocOptions) { o.HostVisible = false })},
	{"stays open after Close", "device/use-after-close", "Alloc: error <nil>", closesAnyway},
	{"claims to be closed, but is not", "stream/device", "core.Live: left open after everything was closed: map[coretest.Device:1]", closesAnyway},
	{"has no name", "device/properties", "has no name",
		changesProperties(func(p *core.Properties) { p.Name = "" })},
	{"declares what it lacks", "device/capabilities", "does not implement core.MemoryExporter", declares(core.CapExportMemory)},
	{"cannot do what it declares", "export-memory/types", "does not implement", declares(core.CapExportMemory)},
	{"keeps a capability to itself", "device/undeclared-capabilities", "MapHost without the capability map_host: error <nil>",
		changesProperties(func(p *core.Properties) { p.Capabilities &^= core.CapMapHost })},
}

func declares(more core.Capabilities) hooks {
	return changesProperties(func(p *core.Properties) { p.Capabilities |= more })
}

// sameMemory hands one block out for all allocations of 1000 bytes, or of 10000.
func (d *device) sameMemory(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	if size != 1000 && size != 10000 {
		return d.Alloc(ctx, size, o)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shared.Handle == 0 {
		m, err := d.Alloc(ctx, size, o)
		if err != nil {
			return m, err
		}
		d.undo = append(d.undo, m.Free)
		m.Owner = core.FreeFunc(func() {})
		d.shared = m
	}
	return d.shared, nil
}

// hasty is an owner that does not wait for pending work.
type hasty struct{ core.Owner }

func (h hasty) FreeAfter([]core.Event) { h.Free() }

var copyMutants = []mutant[hooks]{
	{"ignores the strides of dst", "layout/transposed", "bytes differ",
		copyOther(func(dst, _ *core.Spec) { dst.Strides = nil })},
	{"ignores the strides of src", "layout/every-second", "bytes differ",
		copyOther(func(_, src *core.Spec) { src.Strides = nil })},
	{"ignores the sign of strides", "layout/negative-strides", "bytes differ",
		copyOther(func(dst, src *core.Spec) {
			for _, s := range [][]int64{dst.Strides, src.Strides} {
				for a := range s {
					s[a] = max(s[a], -s[a])
				}
			}
		})},
	{"reads on where src repeats its elements", "layout/broadcast-source", "bytes differ",
		copyOther(func(_, src *core.Spec) {
			for a, stride := range src.Strides {
				if stride == 0 {
					src.Strides[a] = 1
				}
			}
		})},
	{"rounds the offset", "layout/any-offset", "bytes differ",
		copyOther(func(dst, _ *core.Spec) { dst.Offset &^= 3 })},
	{"one element too few", "layout/ranks", "bytes differ",
		copyOther(func(dst, src *core.Spec) {
			if len(dst.Shape) > 0 && dst.Shape[0] > 0 {
				dst.Shape[0]--
				src.Shape[0]--
			}
		})},
	{"one element too many", "layout/every-second", "bytes differ",
		copyOther(func(dst, src *core.Spec) {
			if len(dst.Shape) == 1 {
				dst.Shape[0]++
				src.Shape[0]++
			}
		})},
	{"cannot copy large elements", "layout/element-types", "not supported",
		failFor(func(t *core.Tensor) bool { return t.DType().ElementBits() > 128 })},
	{"cannot copy elements of 12 bytes", "layout/element-sizes", "not supported",
		failFor(func(t *core.Tensor) bool { return t.DType().ElementBits() == 96 })},
	{"cannot copy more than 6 axes", "layout/ranks", "not supported",
		failFor(func(t *core.Tensor) bool { return t.Rank() > 6 })},
	{"counts with 32 bits", "layout/beyond-32-bits", "not supported",
		failFor(func(t *core.Tensor) bool {
			return slices.ContainsFunc(slices.Concat(t.Shape(), t.Layout().Strides()), func(n int64) bool { return n != int64(int32(n)) })
		})},
	{"cannot copy tensors without elements", "layout/zero-size", "not supported", failFor(isEmpty)},
	{"cannot copy strided sub-byte elements", "subbyte/strided", "not supported",
		failFor(func(t *core.Tensor) bool { return t.DType().SubByte() && !t.Layout().IsContiguous() })},
	{"gives up strided sub-byte elements half-way", "subbyte/unsupported", "bytes differ",
		hooks{
			properties: func(p *core.Properties) { p.Capabilities &^= core.CapSubByte },
			copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
				err := d.Copy(ctx, s, dst, src)
				if err == nil && dst.DType().SubByte() {
					err = core.Errorf(core.ErrNotSupported, "mutant", "Copy", "not for %v", dst)
				}
				return err
			},
		}},
	{"writes whole bytes of packed elements", "subbyte/neighbours", "bytes differ",
		copyOther(func(dst, src *core.Spec) {
			if n := dst.DType.ElementBits(); n < 8 && 8%n == 0 && len(dst.Shape) == 1 {
				whole := 8 / n
				dst.Shape[0] = (dst.Shape[0] + whole - 1) / whole * whole
				src.Shape[0] = dst.Shape[0]
			}
		})},
	{"forgets that dst is read-only", "copy-error/read-only", "error <nil>", forgetsReadOnly},
	{"converts element types unasked", "copy-error/element-types", "error <nil>",
		copyFrom(func(dst, src *core.Tensor) (*core.Tensor, error) {
			return respec(src, func(s *core.Spec) { s.DType = dst.DType() })
		})},
	{"broadcasts unasked", "copy-error/broadcast-shapes", "error <nil>",
		copyFrom(func(dst, src *core.Tensor) (*core.Tensor, error) { return src.Broadcast(dst.Shape()...) })},
	{"works before it checks", "copy-error/shapes", "a copy that failed wrote to dst",
		hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
			if _, err := backendkit.CheckCopy(dst, src); errors.Is(err, core.ErrLayout) {
				err := use(dst.Slice(0, 0, 1, 1))(func(first *core.Tensor) error {
					return use(core.FromSlice([]byte{^byte(0)}))(func(other *core.Tensor) error { return d.Copy(ctx, nil, first, other) })
				})
				if err != nil {
					return err
				}
			}
			return d.Copy(ctx, s, dst, src)
		}}},
	{"refuses a copy onto itself", "copy-error/same-elements", "not supported",
		failIf(func(dst, src *core.Tensor) bool { same, _ := backendkit.CheckCopy(dst, src); return same })},
}

var forgetsReadOnly = copyOther(func(dst, _ *core.Spec) { dst.Flags = 0 })

func isEmpty(t *core.Tensor) bool { return t.NumElements() == 0 }
