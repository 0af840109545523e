package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

var memoryMutants = []mutant{
	{
		name: "wrong alignment",
		hooks: hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
			m, err := d.fake.Alloc(ctx, size+8, o)
			m.Handle += 8
			m.Size = size
			return m, err
		}},
		fails: "alloc/alignment", says: "not aligned to 256",
	},
	{
		name: "one byte too few",
		hooks: hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
			m, err := d.fake.Alloc(ctx, size, o)
			m.Size--
			return m, err
		}},
		fails: "alloc/sizes", says: "Alloc(1): size 0",
	},
	{
		name:  "hands out the same memory twice",
		hooks: hooks{alloc: (*device).sameMemory},
		fails: "alloc/own-bytes", says: "live at once",
	},
	{
		name: "refuses empty memory",
		hooks: hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
			if size == 0 {
				return core.Memory{}, core.Errorf(core.ErrInvalid, "mutant", "Alloc", "size is 0")
			}
			return d.fake.Alloc(ctx, size, o)
		}},
		fails: "alloc/zero", says: "size is 0",
	},
	{
		name: "takes a negative size for 0",
		hooks: hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
			return d.fake.Alloc(ctx, max(size, 0), o)
		}},
		fails: "alloc/negative", says: "error <nil>",
	},
	{
		name: "untyped errors",
		hooks: hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
			if size > 1<<40 {
				return core.Memory{}, fmt.Errorf("%w: %d bytes", core.ErrOutOfMemory, size)
			}
			return d.fake.Alloc(ctx, size, o)
		}},
		fails: "alloc/absurd", says: "not a *core.Error",
	},
	{
		name: "ignores the type asked for",
		hooks: hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
			o.Type = 0
			return d.fake.Alloc(ctx, size, o)
		}},
		fails: "alloc/unknown-type", says: "Alloc of type hexagon: error <nil>",
	},
	{
		name: "ignores that memory is to be exported",
		hooks: hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
			o.Export = 0
			return d.fake.Alloc(ctx, size, o)
		}},
		fails: "alloc/unknown-export", says: "error <nil>",
	},
	{
		name: "leaks memory that was never wrapped",
		hooks: hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
			m, err := d.fake.Alloc(ctx, size, o)
			d.later(m.Free)
			m.Owner = core.FreeFunc(func() {})
			return m, err
		}},
		fails: "alloc/free-without-tensor", says: "with nothing open on it",
	},
	{
		name: "frees too early",
		hooks: hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
			m, err := d.fake.Alloc(ctx, size, o)
			m.Owner = hasty{m.Owner}
			return m, err
		}},
		fails: "lifetime/ordered-release", says: "what was copied from the memory before it was freed",
	},
	{
		name:  "closes with memory open",
		hooks: hooks{close: func(*device) error { return nil }},
		fails: "device/close-refused-while-memory-is-open", says: "Close with memory open: error <nil>",
	},
	{
		name:  "closes with a stream open",
		hooks: hooks{close: func(*device) error { return nil }},
		fails: "device/close-refused-while-a-stream-is-open", says: "Close with a stream open: error <nil>",
	},
	{
		name: "takes two calls of Close for two streams",
		hooks: hooks{
			stream: streamHooks{close: func(d *device, q *queue) error {
				d.calls.Add(1)
				return q.Stream.Close()
			}},
			close: func(d *device) error {
				if d.calls.Load() == 2 {
					return nil
				}
				return d.fake.Close()
			},
		},
		fails: "device/close-refused-while-a-stream-is-open", says: "after another one was closed twice: error <nil>",
	},
	{
		name: "closes once only",
		hooks: hooks{close: func(d *device) error {
			if err := d.fake.Copy(context.Background(), nil, nil, nil); errors.Is(err, core.ErrClosed) {
				return err
			}
			return d.fake.Close()
		}},
		fails: "device/close-twice", says: "Close number",
	},
	{
		name:  "tells nobody that it closes",
		hooks: hooks{beforeClose: func(*device, func()) func() { return func() {} }},
		fails: "device/close-hooks", says: "Close with memory open that a hook frees",
	},
	{
		name: "forgets that a hook was cancelled",
		hooks: hooks{beforeClose: func(d *device, f func()) func() {
			d.fake.BeforeClose(f)
			return func() {}
		}},
		fails: "device/cancelled-close-hook", says: "whose hook was cancelled: error <nil>",
	},
	{
		name: "ignores that the host is to see memory",
		hooks: hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
			o.HostVisible = false
			return d.fake.Alloc(ctx, size, o)
		}},
		fails: "host-view/unsupported", says: "error <nil>",
	},
	{
		name:  "stays open after Close",
		hooks: hooks{close: func(*device) error { return nil }},
		fails: "device/use-after-close", says: "Alloc: error <nil>",
	},
	{
		name:  "claims to be closed, but is not",
		hooks: hooks{close: func(*device) error { return nil }},
		fails: "stream/device", says: "core.Live: left open after everything was closed: map[coretest.Device:1]",
	},
	{
		name:  "has no name",
		hooks: hooks{properties: func(p *core.Properties) { p.Name = "" }},
		fails: "device/properties", says: "has no name",
	},
	{
		name:  "declares what it lacks",
		hooks: hooks{properties: func(p *core.Properties) { p.Capabilities |= core.CapExportMemory }},
		fails: "device/capabilities", says: "does not implement core.MemoryExporter",
	},
	{
		name:  "cannot do what it declares",
		hooks: hooks{properties: func(p *core.Properties) { p.Capabilities |= core.CapExportMemory }},
		fails: "export-memory/types", says: "does not implement",
	},
	{
		name:  "keeps a capability to itself",
		hooks: hooks{properties: func(p *core.Properties) { p.Capabilities &^= core.CapMapHost }},
		fails: "device/undeclared-capabilities", says: "MapHost without the capability map_host: error <nil>",
	},
}

// sameMemory hands one block out for all allocations of 1000 bytes, or of 10000.
func (d *device) sameMemory(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	if size != 1000 && size != 10000 {
		return d.fake.Alloc(ctx, size, o)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shared.Handle == 0 {
		m, err := d.fake.Alloc(ctx, size, o)
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

var copyMutants = []mutant{
	{
		name:  "ignores the strides of dst",
		hooks: hooks{copy: copyOther(func(dst, _ *core.Spec) { dst.Strides = nil })},
		fails: "layout/transposed", says: "bytes differ",
	},
	{
		name:  "ignores the strides of src",
		hooks: hooks{copy: copyOther(func(_, src *core.Spec) { src.Strides = nil })},
		fails: "layout/every-second", says: "bytes differ",
	},
	{
		name: "ignores the sign of strides",
		hooks: hooks{copy: copyOther(func(dst, src *core.Spec) {
			for _, s := range [][]int64{dst.Strides, src.Strides} {
				for a := range s {
					s[a] = max(s[a], -s[a])
				}
			}
		})},
		fails: "layout/negative-strides", says: "bytes differ",
	},
	{
		name: "reads on where src repeats its elements",
		hooks: hooks{copy: copyOther(func(_, src *core.Spec) {
			for a, stride := range src.Strides {
				if stride == 0 {
					src.Strides[a] = 1
				}
			}
		})},
		fails: "layout/broadcast-source", says: "bytes differ",
	},
	{
		name:  "rounds the offset",
		hooks: hooks{copy: copyOther(func(dst, _ *core.Spec) { dst.Offset &^= 3 })},
		fails: "layout/any-offset", says: "bytes differ",
	},
	{
		name: "one element too few",
		hooks: hooks{copy: copyOther(func(dst, src *core.Spec) {
			if len(dst.Shape) > 0 && dst.Shape[0] > 0 {
				dst.Shape[0]--
				src.Shape[0]--
			}
		})},
		fails: "layout/ranks", says: "bytes differ",
	},
	{
		name: "one element too many",
		hooks: hooks{copy: copyOther(func(dst, src *core.Spec) {
			if len(dst.Shape) == 1 {
				dst.Shape[0]++
				src.Shape[0]++
			}
		})},
		fails: "layout/every-second", says: "bytes differ",
	},
	{
		name:  "cannot copy large elements",
		hooks: hooks{copy: failFor(func(t *core.Tensor) bool { return t.DType().ElementBits() > 128 })},
		fails: "layout/element-types", says: "not supported",
	},
	{
		name:  "cannot copy elements of 12 bytes",
		hooks: hooks{copy: failFor(func(t *core.Tensor) bool { return t.DType().ElementBits() == 96 })},
		fails: "layout/element-sizes", says: "not supported",
	},
	{
		name:  "cannot copy more than 6 axes",
		hooks: hooks{copy: failFor(func(t *core.Tensor) bool { return t.Rank() > 6 })},
		fails: "layout/ranks", says: "not supported",
	},
	{
		name: "counts with 32 bits",
		hooks: hooks{copy: failFor(func(t *core.Tensor) bool {
			return slices.ContainsFunc(slices.Concat(t.Shape(), t.Layout().Strides()), func(n int64) bool { return n != int64(int32(n)) })
		})},
		fails: "layout/beyond-32-bits", says: "not supported",
	},
	{
		name:  "cannot copy tensors without elements",
		hooks: hooks{copy: failFor(func(t *core.Tensor) bool { return t.NumElements() == 0 })},
		fails: "layout/zero-size", says: "not supported",
	},
	{
		name:  "cannot copy strided sub-byte elements",
		hooks: hooks{copy: failFor(func(t *core.Tensor) bool { return t.DType().SubByte() && !t.Layout().IsContiguous() })},
		fails: "subbyte/strided", says: "not supported",
	},
	{
		name: "gives up strided sub-byte elements half-way",
		hooks: hooks{
			properties: func(p *core.Properties) { p.Capabilities &^= core.CapSubByte },
			copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
				err := d.fake.Copy(ctx, s, dst, src)
				if err == nil && dst.DType().SubByte() {
					err = core.Errorf(core.ErrNotSupported, "mutant", "Copy", "not for %v", dst)
				}
				return err
			},
		},
		fails: "subbyte/unsupported", says: "bytes differ",
	},
	{
		name: "writes whole bytes of packed elements",
		hooks: hooks{copy: copyOther(func(dst, src *core.Spec) {
			if n := dst.DType.ElementBits(); n < 8 && 8%n == 0 && len(dst.Shape) == 1 {
				whole := 8 / n
				dst.Shape[0] = (dst.Shape[0] + whole - 1) / whole * whole
				src.Shape[0] = dst.Shape[0]
			}
		})},
		fails: "subbyte/neighbours", says: "bytes differ",
	},
	{
		name:  "forgets that dst is read-only",
		hooks: hooks{copy: copyOther(func(dst, _ *core.Spec) { dst.Flags = 0 })},
		fails: "copy-error/read-only", says: "error <nil>",
	},
	{
		name: "converts element types unasked",
		hooks: hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
			same, err := respec(src, func(s *core.Spec) { s.DType = dst.DType() })
			if err != nil {
				return err
			}
			defer same.Close()
			return d.fake.Copy(ctx, s, dst, same)
		}},
		fails: "copy-error/element-types", says: "error <nil>",
	},
	{
		name: "broadcasts unasked",
		hooks: hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
			wide, err := src.Broadcast(dst.Shape()...)
			if err != nil {
				return err
			}
			defer wide.Close()
			return d.fake.Copy(ctx, s, dst, wide)
		}},
		fails: "copy-error/broadcast-shapes", says: "error <nil>",
	},
	{
		name: "works before it checks",
		hooks: hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
			if _, err := backendkit.CheckCopy(dst, src); errors.Is(err, core.ErrLayout) {
				first, err := dst.Slice(0, 0, 1, 1)
				if err != nil {
					return err
				}
				defer first.Close()
				other, err := core.FromSlice([]byte{^byte(0)})
				if err != nil {
					return err
				}
				defer other.Close()
				if err := d.fake.Copy(ctx, nil, first, other); err != nil {
					return err
				}
			}
			return d.fake.Copy(ctx, s, dst, src)
		}},
		fails: "copy-error/shapes", says: "a copy that failed wrote to dst",
	},
	{
		name:  "refuses a copy onto itself",
		hooks: hooks{copy: failIf(func(dst, src *core.Tensor) bool { same, _ := backendkit.CheckCopy(dst, src); return same })},
		fails: "copy-error/same-elements", says: "not supported",
	},
}

// failIf refuses the copies that match.
func failIf(match func(dst, src *core.Tensor) bool) copyHook {
	return func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		if match(dst, src) {
			return core.Errorf(core.ErrNotSupported, "mutant", "Copy", "not for %v", dst)
		}
		return d.fake.Copy(ctx, s, dst, src)
	}
}

func failFor(match func(*core.Tensor) bool) copyHook {
	return failIf(func(dst, _ *core.Tensor) bool { return match(dst) })
}
