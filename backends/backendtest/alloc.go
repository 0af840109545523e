package backendtest

import (
	"math"

	"github.com/dlx-go/dlx/core"
)

var allocCases = []Case{
	{
		Name: "alloc/sizes",
		Rule: "core.Device.Alloc: returns size bytes of the device's own memory, all of which can be written and read",
		run:  caseAllocSizes,
	},
	{
		Name: "alloc/zero",
		Rule: "core.Device.Alloc: size 0 is allowed",
		run:  caseAllocZero,
	},
	{
		Name: "alloc/alignment",
		Rule: "core.Properties.Alignment, dlpack.h data: every allocation is aligned to it, and it is a power of two and at least 256 bytes",
		run:  caseAllocAlignment,
	},
	{
		Name: "alloc/own-bytes",
		Rule: "core.Device.Alloc: the caller owns the bytes; no two live allocations share any",
		run:  caseAllocOwnBytes,
	},
	{
		Name: "alloc/free-without-tensor",
		Rule: "core.Memory: memory that was never wrapped is freed by its Owner",
		run:  caseAllocFree,
	},
	{
		Name: "alloc/negative",
		Rule: "core.Device.Alloc: a negative size fails with ErrInvalid",
		run:  caseAllocNegative,
	},
	{
		Name: "alloc/absurd",
		Rule: "core.Device.Alloc: a size larger than any memory fails with ErrOutOfMemory, and the device still works",
		run:  caseAllocAbsurd,
	},
	{
		Name: "alloc/unknown-type",
		Rule: "core.Device.Alloc: AllocOptions.Type of another backend fails with ErrNotSupported",
		run:  caseAllocType,
	},
	{
		Name: "alloc/unknown-export",
		Rule: "core.Device.Alloc: AllocOptions.Export fails with ErrNotSupported for a handle type that the device cannot export",
		run:  caseAllocExport,
	},
	{
		Name: "alloc/for-a-stream",
		Rule: "core.AllocOptions.Stream: memory whose earlier work still runs may be allocated for the stream; work on the stream never sees that work's bytes",
		run:  caseAllocStream,
	},
}

// alloc allocates plain memory, to be freed by the case.
func (e *env) alloc(size int64) core.Memory {
	e.Helper()
	m, err := e.dev.Alloc(e.ctx, size, core.AllocOptions{})
	e.check(err, "Alloc(%d)", size)
	return m
}

func caseAllocSizes(e *env) {
	for _, size := range []int64{1, 2, 3, 255, 256, 257, 4095, 4097, 1<<20 + 1, 4 << 20} {
		m := e.alloc(size)
		if m.Size != size || m.ID != e.dev.ID() || m.Device != e.dev || m.Handle == 0 || m.Owner == nil {
			e.Errorf("Alloc(%d): size %d on %v, handle %#x, owner %v; want all of it, on %v, with the device as its Device and an owner",
				size, m.Size, m.ID, m.Handle, m.Owner, e.dev.ID())
		}
		t := e.wrapBytes(m)
		content := e.pattern(size)
		e.write(t, content)
		e.wantBytes(t, content, "%d bytes", size)
		_ = t.Close()
	}
}

func caseAllocZero(e *env) {
	m := e.alloc(0)
	if m.Size != 0 {
		e.Errorf("Alloc(0) has %d bytes", m.Size)
	}
	m.Free()
	a, b := e.bytes(0), e.bytes(0)
	e.copy(nil, a, b)
	e.copy(nil, a, e.hostBytes(nil))
	_ = a.Close()
}

func caseAllocAlignment(e *env) {
	align := e.props.Alignment
	if align < 256 || align&(align-1) != 0 {
		e.Fatalf("Alignment is %d, want a power of two from 256 on", align)
	}
	for _, size := range []int64{1, 3, 100, 256, 1000, 4096, 5000, 1 << 20} {
		for range 3 {
			m := e.alloc(size)
			e.Cleanup(m.Free)
			at := uint64(m.Offset)
			if !m.ID.Type.OpaqueHandle() {
				at += uint64(m.Handle)
			}
			if at%uint64(align) != 0 {
				e.Errorf("Alloc(%d) lies at %#x, which is not aligned to %d", size, at, align)
			}
		}
	}
}

func caseAllocOwnBytes(e *env) {
	sizes := []int64{1, 16, 1000, 4096, 70000}
	tensors := make([]*core.Tensor, 40)
	contents := make([][]byte, len(tensors))
	fill := func(i int) {
		contents[i] = e.pattern(sizes[i%len(sizes)])
		tensors[i] = e.upload(contents[i])
	}
	for i := range tensors {
		fill(i)
	}
	for i := 0; i < len(tensors); i += 3 { // and again after some went back
		_ = tensors[i].Close()
		fill(i)
	}
	for i, t := range tensors {
		e.wantBytes(t, contents[i], "allocation %d of %d that live at once", i, len(tensors))
	}
}

func caseAllocFree(e *env) {
	for range 10 {
		e.alloc(5000).Free()
	}
	// The device's Close at the end finds out if that is still open.
}

func caseAllocNegative(e *env) {
	for _, size := range []int64{-1, -256, math.MinInt64} {
		m, err := e.dev.Alloc(e.ctx, size, core.AllocOptions{})
		e.wantError(err, core.ErrInvalid, "Alloc(%d)", size)
		if err == nil {
			m.Free()
		}
	}
}

func caseAllocAbsurd(e *env) {
	for _, size := range []int64{1 << 60, math.MaxInt64 - 1, math.MaxInt64} {
		m, err := e.dev.Alloc(e.ctx, size, core.AllocOptions{})
		e.wantError(err, core.ErrOutOfMemory, "Alloc(%d)", size)
		if err == nil {
			m.Free()
		}
	}
	content := e.pattern(100)
	e.wantBytes(e.upload(content), content, "memory after a refused Alloc")
}

func caseAllocType(e *env) {
	other := core.DeviceHexagon
	if e.props.ID.Type == other {
		other = core.DeviceTrn
	}
	for _, t := range []core.DeviceType{other, -1, 9999} {
		m, err := e.dev.Alloc(e.ctx, 16, core.AllocOptions{Type: t})
		e.wantError(err, core.ErrNotSupported, "Alloc of type %v", t)
		if err == nil {
			m.Free()
		}
	}
	m, err := e.dev.Alloc(e.ctx, 16, core.AllocOptions{Type: e.props.ID.Type})
	e.check(err, "Alloc of the device's own type")
	m.Free()
}

func caseAllocExport(e *env) {
	for _, h := range []core.HandleType{9999, core.HandleType(math.MaxUint32)} {
		m, err := e.dev.Alloc(e.ctx, 16, core.AllocOptions{Export: h})
		e.wantError(err, core.ErrNotSupported, "Alloc for export as handle type %d", h)
		if err == nil {
			m.Free()
		}
	}
}

func caseAllocStream(e *env) {
	s := e.stream()
	opts := core.AllocOptions{Stream: s}
	contents := make([][]byte, 20)
	sources, results := make([]*core.Tensor, 20), make([]*core.Tensor, 20)
	for i := range contents {
		contents[i] = e.pattern(10000)
		sources[i], results[i] = e.hostBytes(contents[i]), e.bytes(10000)
	}
	for i := range contents { // memory goes round, while its former use may still run
		t := e.keep(core.Empty(e.ctx, e.dev, core.TypeUint8, []int64{10000}, opts))
		e.copy(s, t, sources[i])
		e.copy(s, results[i], t)
		_ = t.Close()
	}
	e.synchronize(s)
	for i, r := range results {
		e.wantBytes(r, contents[i], "result %d", i)
	}
}
