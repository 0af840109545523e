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
func onOpaque(list []mutant[hooks]) []mutant[hooks] {
	for i := range list {
		list[i].name += ", opaque"
		list[i].hooks.options.Opaque = true
	}
	return list
}

var handleMutants = slices.Concat([]mutant[hooks]{
	{"puts memory off the alignment", "alloc/alignment", "not aligned to 256",
		gives(8, func(_ *device, m *core.Memory) { m.Offset += 8 })},
	{"ignores the offset of memory", "alloc/own-bytes", "live at once",
		hooks{copy: withoutOffsets}},
	{"maps whole pages and forgets the offset", "map-host/alignment", "mapped memory off the alignment",
		hooks{mapHost: altered(mapTrue, forgetOffset)}},
	{"maps whole pages and takes all of them for its own", "map-host/alignment", "mapped 12287 bytes, want 12286",
		hooks{mapHost: altered(mapTrue, func(_ *core.Buffer, m *core.Memory) { m.Size, m.Offset = m.Size+m.Offset, 0 })}},
	{"takes any size for that of a handle", "import-pointer/failure", "1152921504606846976): error <nil>",
		imports(func(d *device, p uintptr, size int64, o core.Owner) (core.Memory, error) {
			m, err := d.ImportPointer(p, min(size, 256), o)
			m.Size = size
			return m, err
		})},
	{"copies what it should import", "import-pointer/no-copy", "imported memory",
		imports(func(d *device, _ uintptr, size int64, _ core.Owner) (core.Memory, error) {
			return d.Alloc(context.Background(), size, core.AllocOptions{})
		})},
	{"claims that the host can use its handles", "device/capabilities", "has no address", declares(core.CapHostMemory)},
}, each("moves data without waiting", forgetsBoth, "what a reader got of a write through the device",
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
	return d.Copy(ctx, s, dst, src)
}

var showTrue memoryHook = (*device).HostView

var viewMutants = []mutant[hooks]{
	{"says that the host views nothing", "host-view/checked", "and the error of HostView is <nil>",
		hooks{canView: func(*device, core.Memory) error { return core.Errorf(core.ErrNotSupported, "fake", "HostView", "no") }}},
	{"shows no small memory", "host-view/host-visible", "too small",
		hooks{hostView: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			if b.Memory().Size < 256 {
				return core.Memory{}, core.Errorf(core.ErrNotSupported, "mutant", "HostView", "too small")
			}
			return d.HostView(ctx, b)
		}}},
	{"shows other memory under an untyped error", "host-view/host-visible", "not a *core.Error",
		hooks{hostView: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			m, err := d.HostView(ctx, b)
			if err != nil {
				err = core.ErrNotSupported
			}
			return m, err
		}}},
	{"does not tell where the host sees its memory", "host-view/no-copy", "Memory.Host of what is viewed is 0x0",
		gives(0, func(_ *device, m *core.Memory) { m.Host = 0 })},
	{"shows a copy", "host-view/no-copy", "the memory, after the host wrote to the view",
		hooks{hostView: showCopy}},
	{"shows memory and forgets its offset", "host-view/no-copy", "the view: ",
		hooks{hostView: altered(showTrue, func(b *core.Buffer, m *core.Memory) { m.Handle -= uintptr(b.Memory().Offset) })}},
	{"shows more than there is", "host-view/no-copy", "the view has 5001 bytes",
		hooks{hostView: altered(showTrue, func(_ *core.Buffer, m *core.Memory) { m.Size++ })}},
	{"does not keep alive what it shows", "host-view/reference", "Close of the device with the view open: error <nil>",
		hooks{hostView: altered(showTrue, func(_ *core.Buffer, m *core.Memory) {
			m.Free()
			m.Owner = nil
		})}},
	{"is not safe for concurrent use", "hammer/host-view", "two calls at once",
		hooks{hostView: oneMapAtATime(showTrue)}},
	{"shows what was closed", "host-view/refused", "HostView of a closed buffer: error <nil>",
		hooks{hostView: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			if b != nil && b.Retain() != nil {
				return core.Memory{ID: core.CPU, Size: b.Memory().Size}, nil
			}
			return core.Memory{}, core.Errorf(core.ErrInvalid, "mutant", "HostView", "not this one")
		}}},
}

// showCopy gives host memory with the contents of b.
func showCopy(d *device, ctx context.Context, b *core.Buffer) (m core.Memory, err error) {
	size := b.Memory().Size
	p := make([]byte, size)
	err = use(core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{size}}))(func(src *core.Tensor) error {
		return use(core.FromSlice(p))(func(dst *core.Tensor) error { return d.Copy(ctx, nil, dst, src) })
	})
	return core.Memory{
		ID: core.CPU, Handle: uintptr(unsafe.Pointer(&p[0])), Size: size,
		Owner: core.FreeFunc(func() { runtime.KeepAlive(p) }),
	}, err
}

// opensAnother opens a stream instead of importing one.
var opensAnother = hooks{importStream: func(d *device, ctx context.Context, _ uintptr) (core.Stream, error) {
	return d.NewStream(ctx)
}}

var importStreamMutants = []mutant[hooks]{
	{"makes a stream of its own", "import-stream/same-queue", "with handle 0x2, want this device and 0x1", opensAnother},
	{"does not wait for the work of an import", "import-stream/close", "the copy is not done after Close", closesStreamsLater},
	{"takes stream 0", "import-stream/failure", "ImportStream(0): error <nil>", opensAnother},
}
