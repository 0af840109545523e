package backendtest

import (
	"context"
	"runtime"
	"slices"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// opaqueMutants are devices whose memory has handles: those that do what devices
// with addresses do wrong too, and those that treat handles and views wrongly.
var opaqueMutants = onOpaque(slices.Concat(copyMutants, orderMutants, handleMutants, viewMutants, importStreamMutants))

// onOpaque makes the same mutants of an opaque device.
func onOpaque(list []mutant) []mutant {
	for i := range list {
		list[i].name += ", opaque"
		list[i].options.Opaque = true
	}
	return list
}

var handleMutants = slices.Concat([]mutant{
	{
		name: "puts memory off the alignment",
		hooks: hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
			m, err := d.fake.Alloc(ctx, size+8, o)
			m.Offset += 8
			m.Size = size
			return m, err
		}},
		fails: "alloc/alignment", says: "not aligned to 256",
	},
	{
		name:  "ignores the offset of memory",
		hooks: hooks{copy: withoutOffsets},
		fails: "alloc/own-bytes", says: "live at once",
	},
	{
		name: "maps whole pages and forgets the offset",
		hooks: hooks{mapHost: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			m, err := d.fake.MapHost(ctx, b)
			m.Offset = 0
			return m, err
		}},
		fails: "map-host/alignment", says: "mapped memory off the alignment",
	},
	{
		name: "maps whole pages and takes all of them for its own",
		hooks: hooks{mapHost: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			m, err := d.fake.MapHost(ctx, b)
			m.Size += m.Offset
			m.Offset = 0
			return m, err
		}},
		fails: "map-host/alignment", says: "mapped 12287 bytes, want 12286",
	},
	{
		name: "takes any size for that of a handle",
		hooks: hooks{importPointer: func(d *device, p uintptr, size int64, o core.Owner) (core.Memory, error) {
			m, err := d.fake.ImportPointer(p, min(size, 256), o)
			m.Size = size
			return m, err
		}},
		fails: "import-pointer/failure", says: "1152921504606846976): error <nil>",
	},
	{
		name: "copies what it should import",
		hooks: hooks{importPointer: func(d *device, _ uintptr, size int64, _ core.Owner) (core.Memory, error) {
			return d.fake.Alloc(context.Background(), size, core.AllocOptions{})
		}},
		fails: "import-pointer/no-copy", says: "imported memory",
	},
	{
		name:  "claims that the host can use its handles",
		hooks: hooks{properties: func(p *core.Properties) { p.Capabilities |= core.CapHostMemory }},
		fails: "device/capabilities", says: "has no address",
	},
}, each("moves data without waiting", hooks{copy: forget(true, true)}, "what a reader got of a write through the device",
	"map-host/order", "host-view/order"))

// withoutOffsets copies as if memory began where its handle does.
func withoutOffsets(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	for _, t := range []**core.Tensor{&dst, &src} {
		b, err := (*t).Buffer()
		if err != nil {
			return err
		}
		m := b.Memory()
		spec := core.Spec{DType: (*t).DType(), Shape: (*t).Shape(), Strides: (*t).Layout().Strides(), Offset: (*t).Offset() - m.Offset, Flags: (*t).Flags()}
		m.Offset = 0
		u, err := core.Wrap(m, spec)
		if err != nil {
			return err
		}
		defer u.Close()
		*t = u
	}
	return d.fake.Copy(ctx, s, dst, src)
}

var viewMutants = []mutant{
	{
		name: "says that the host views nothing",
		hooks: hooks{canView: func(*device, core.Memory) error {
			return core.Errorf(core.ErrNotSupported, "fake", "HostView", "no")
		}},
		fails: "host-view/checked", says: "and the error of HostView is <nil>",
	},
	{
		name: "shows no small memory",
		hooks: hooks{hostView: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			if b.Memory().Size < 256 {
				return core.Memory{}, core.Errorf(core.ErrNotSupported, "mutant", "HostView", "too small")
			}
			return showTrue(d, ctx, b)
		}},
		fails: "host-view/host-visible", says: "too small",
	},
	{
		name: "shows other memory under an untyped error",
		hooks: hooks{hostView: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			m, err := showTrue(d, ctx, b)
			if err != nil {
				err = core.ErrNotSupported
			}
			return m, err
		}},
		fails: "host-view/host-visible", says: "not a *core.Error",
	},
	{
		name: "does not tell where the host sees its memory",
		hooks: hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
			m, err := d.fake.Alloc(ctx, size, o)
			m.Host = 0
			return m, err
		}},
		fails: "host-view/no-copy", says: "Memory.Host of what is viewed is 0x0",
	},
	{
		name:  "shows a copy",
		hooks: hooks{hostView: showCopy},
		fails: "host-view/no-copy", says: "the memory, after the host wrote to the view",
	},
	{
		name: "shows memory and forgets its offset",
		hooks: hooks{hostView: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			m, err := showTrue(d, ctx, b)
			m.Handle -= uintptr(b.Memory().Offset)
			return m, err
		}},
		fails: "host-view/no-copy", says: "the view: ",
	},
	{
		name: "shows more than there is",
		hooks: hooks{hostView: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			m, err := showTrue(d, ctx, b)
			m.Size++
			return m, err
		}},
		fails: "host-view/no-copy", says: "the view has 5001 bytes",
	},
	{
		name: "does not keep alive what it shows",
		hooks: hooks{hostView: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			m, err := showTrue(d, ctx, b)
			m.Free()
			m.Owner = nil
			return m, err
		}},
		fails: "host-view/reference", says: "Close of the device with the view open: error <nil>",
	},
	{
		name: "is not safe for concurrent use",
		hooks: hooks{hostView: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			return alone(d, func() (core.Memory, error) { return showTrue(d, ctx, b) })
		}},
		fails: "hammer/host-view", says: "two calls at once",
	},
	{
		name: "shows what was closed",
		hooks: hooks{hostView: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			if b != nil && b.Retain() != nil {
				return core.Memory{ID: core.CPU, Size: b.Memory().Size}, nil
			}
			return core.Memory{}, core.Errorf(core.ErrInvalid, "mutant", "HostView", "not this one")
		}},
		fails: "host-view/refused", says: "HostView of a closed buffer: error <nil>",
	},
}

func showTrue(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
	return d.fake.HostView(ctx, b)
}

// showCopy gives host memory with the contents of b.
func showCopy(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
	size := b.Memory().Size
	src, err := core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{size}})
	if err != nil {
		return core.Memory{}, err
	}
	defer src.Close()
	p := make([]byte, size)
	dst, err := core.FromSlice(p)
	if err != nil {
		return core.Memory{}, err
	}
	defer dst.Close()
	return core.Memory{
		ID: core.CPU, Handle: uintptr(unsafe.Pointer(&p[0])), Size: size,
		Owner: core.FreeFunc(func() { runtime.KeepAlive(p) }),
	}, d.fake.Copy(ctx, nil, dst, src)
}

var importStreamMutants = []mutant{
	{
		name: "makes a stream of its own",
		hooks: hooks{importStream: func(d *device, ctx context.Context, _ uintptr) (core.Stream, error) {
			return d.fake.NewStream(ctx)
		}},
		fails: "import-stream/same-queue", says: "with handle 0x2, want this device and 0x1",
	},
	{
		name: "does not wait for the work of an import",
		hooks: hooks{stream: streamHooks{close: func(d *device, q *queue) error {
			d.later(func() { _ = q.Stream.Close() })
			return nil
		}}},
		fails: "import-stream/close", says: "the copy is not done after Close",
	},
	{
		name: "takes stream 0",
		hooks: hooks{importStream: func(d *device, ctx context.Context, native uintptr) (core.Stream, error) {
			return d.fake.NewStream(ctx)
		}},
		fails: "import-stream/failure", says: "ImportStream(0): error <nil>",
	},
}
