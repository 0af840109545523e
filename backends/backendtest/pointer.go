package backendtest

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

var pointerCases = []Case{
	{
		Name:  "import-pointer/no-copy",
		Rule:  "core.PointerImporter: wraps memory without a copy; each side sees the other's writes",
		Needs: core.CapImportPointer,
		run:   caseImportPointer,
	},
	{
		Name:  "import-pointer/host-memory",
		Rule:  "core.PointerImporter, core.CapHostMemory: any host memory can be imported, wherever it begins",
		Needs: core.CapImportPointer | core.CapHostMemory,
		run:   caseImportHostPointer,
	},
	{
		Name:  "import-pointer/owner",
		Rule:  "core.PointerImporter: on success the memory owns owner and frees it last, once; owner may be nil",
		Needs: core.CapImportPointer,
		run:   caseImportPointerOwner,
	},
	{
		Name:  "import-pointer/failure",
		Rule:  "core.PointerImporter: address 0 and a negative or overflowing size fail with ErrInvalid, and the caller keeps owner",
		Needs: core.CapImportPointer,
		run:   caseImportPointerFailure,
	},
	{
		Name:  "map-host/no-copy",
		Rule:  "core.HostMapper: the result is the memory of host; each side sees the other's writes",
		Needs: core.CapMapHost,
		run:   caseMapHost,
	},
	{
		Name:  "map-host/reference",
		Rule:  "core.HostMapper: host is kept alive by a reference until the result is freed",
		Needs: core.CapMapHost,
		run:   caseMapHostReference,
	},
	{
		Name:  "map-host/alignment",
		Rule:  "core.HostMapper: where address or size do not suit HostAlignment, fails with ErrInvalid, or maps whole units and changes no byte beside host's",
		Needs: core.CapMapHost,
		run:   caseMapHostAlignment,
	},
}

// address is where a tensor lies in the address space of its device.
func (e *env) address(t *core.Tensor) uintptr {
	e.Helper()
	a, err := t.Address()
	e.check(err, "Address")
	return a
}

// wrapBytes makes a uint8 tensor of memory.
func (e *env) wrapBytes(m core.Memory) *core.Tensor {
	e.Helper()
	t, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}})
	if err != nil {
		m.Free()
	}
	return e.keep(t, err)
}

func caseImportPointer(e *env) {
	importer := as[core.PointerImporter](e)
	content := e.pattern(1000)
	origin := e.upload(content)
	m, err := importer.ImportPointer(e.address(origin)+10, 500, nil)
	e.check(err, "ImportPointer of memory that the device allocated")
	if m.Size != 500 || m.ID != e.props.ID || m.Device != e.dev {
		e.Errorf("imported %d bytes on %v, want 500 on %v with the device as its Device", m.Size, m.ID, e.props.ID)
	}
	t := e.wrapBytes(m)
	e.wantBytes(t, content[10:510], "imported memory")
	next := e.pattern(500)
	e.write(t, next)
	copy(content[10:], next)
	e.wantBytes(origin, content, "the origin, after a write to the import")
	_ = t.Close()
	e.wantBytes(origin, content, "the origin, after the import was closed")
}

func caseImportHostPointer(e *env) {
	importer := as[core.PointerImporter](e)
	host := e.pattern(1001)
	base := e.hostBytes(host)
	for _, offset := range []int64{0, 1, 7, 64} {
		size := 900 - offset
		m, err := importer.ImportPointer(e.address(base)+uintptr(offset), size, nil)
		e.check(err, "ImportPointer of host memory, offset %d", offset)
		t := e.wrapBytes(m)
		e.wantBytes(t, host[offset:offset+size], "imported host memory")
		next := e.pattern(size)
		e.write(t, next)
		if got := host[offset : offset+size]; string(got) != string(next) {
			e.Errorf("the host's view after a write by the device: %s", difference(got, next))
		}
		_ = t.Close()
	}
}

// counted is an owner that counts its calls.
func counted() (core.Owner, *atomic.Int32) {
	n := new(atomic.Int32)
	return core.FreeFunc(func() { n.Add(1) }), n
}

func caseImportPointerOwner(e *env) {
	importer := as[core.PointerImporter](e)
	origin := e.upload(e.pattern(100))
	owner, freed := counted()
	m, err := importer.ImportPointer(e.address(origin), 100, owner)
	e.check(err, "ImportPointer")
	t := e.wrapBytes(m)
	view, err := t.Slice(0, 0, 10, 1)
	e.keep(view, err)
	s := e.stream()
	e.copy(s, e.bytes(10), view)
	_ = t.Close()
	if n := freed.Load(); n != 0 {
		e.Errorf("the owner was told %d times while a view is open", n)
	}
	_ = view.Close()
	e.synchronize(s)
	e.wantFreedOnce(freed, "imported memory")

	owner, freed = counted()
	m, err = importer.ImportPointer(e.address(origin), 100, owner)
	e.check(err, "ImportPointer")
	m.Free()
	e.wantFreedOnce(freed, "imported memory that was never wrapped")
}

func caseImportPointerFailure(e *env) {
	importer := as[core.PointerImporter](e)
	p := e.address(e.upload(e.pattern(100)))
	for _, bad := range []struct {
		p    uintptr
		size int64
	}{{0, 16}, {p, -1}, {p, math.MinInt64}, {math.MaxUint - 15, 4096}} {
		owner, freed := counted()
		m, err := importer.ImportPointer(bad.p, bad.size, owner)
		e.wantError(err, core.ErrInvalid, "ImportPointer(%#x, %d)", bad.p, bad.size)
		if err == nil {
			m.Free()
		} else if n := freed.Load(); n != 0 {
			e.Errorf("ImportPointer(%#x, %d) failed, but told the owner %d times", bad.p, bad.size, n)
		}
	}
}

// mappable is host memory that suits the device's HostAlignment, with the bytes
// that the host sees.
func (e *env) mappable(align, size int64) (*core.Tensor, []byte) {
	e.Helper()
	size = (size + align - 1) / align * align
	all := make([]byte, size+align)
	base := e.hostBytes(all)
	skip := (align - int64(e.address(base))%align) % align
	part := all[skip:][:size:size]
	return e.view(base, core.Spec{DType: core.TypeUint8, Shape: []int64{size}, Offset: skip}), part
}

// hostBuffer is host memory as a buffer of its own, since MapHost maps whole buffers.
func (e *env) hostBuffer(t *core.Tensor) (*core.Tensor, *core.Buffer, *atomic.Int32) {
	e.Helper()
	owner, freed := counted()
	own := e.wrapBytes(core.Memory{ID: core.CPU, Handle: e.address(t), Size: t.NumElements(), Owner: owner})
	b, err := own.Buffer()
	e.check(err, "Buffer")
	return own, b, freed
}

func caseMapHost(e *env) {
	mapper := as[core.HostMapper](e)
	memory, host := e.mappable(mapper.HostAlignment(), 5000)
	_, buffer, _ := e.hostBuffer(memory)
	copy(host, e.pattern(int64(len(host))))
	m, err := mapper.MapHost(e.ctx, buffer)
	e.check(err, "MapHost")
	if m.Size != int64(len(host)) || m.Device != e.dev {
		e.Errorf("mapped %d bytes, want %d, with the device as its Device", m.Size, len(host))
	}
	t := e.wrapBytes(m)
	e.wantBytes(t, host, "mapped memory")
	next := e.pattern(int64(len(host)))
	e.copy(nil, t, e.upload(next))
	if string(host) != string(next) {
		e.Errorf("the host's view after a write by the device: %s", difference(host, next))
	}
}

func caseMapHostReference(e *env) {
	mapper := as[core.HostMapper](e)
	memory, host := e.mappable(mapper.HostAlignment(), 5000)
	own, buffer, freed := e.hostBuffer(memory)
	m, err := mapper.MapHost(e.ctx, buffer)
	e.check(err, "MapHost")
	t := e.wrapBytes(m)
	_ = own.Close()
	if n := freed.Load(); n != 0 {
		e.Errorf("the host memory was freed %d times while it is mapped", n)
	}
	e.wantBytes(t, host, "mapped memory whose host tensor was closed")
	_ = t.Close()
	e.wantFreedOnce(freed, "host memory after the mapping was freed")
}

func caseMapHostAlignment(e *env) {
	mapper := as[core.HostMapper](e)
	align := mapper.HostAlignment()
	if align < 1 || align&(align-1) != 0 {
		e.Fatalf("HostAlignment is %d, want a power of two", align)
	}
	if align == 1 {
		return // everything suits
	}
	whole, all := e.mappable(align, 5000)
	first, last := int64(1), int64(len(all))-1
	own, buffer, freed := e.hostBuffer(e.view(whole, core.Spec{DType: core.TypeUint8, Shape: []int64{last - first}, Offset: first}))
	m, err := mapper.MapHost(e.ctx, buffer)
	if err == nil {
		e.wantWidened(m, all, first, last)
	} else {
		e.wantError(err, core.ErrInvalid, "MapHost of memory off its alignment")
	}
	_ = own.Close()
	e.wantFreedOnce(freed, "host memory off the alignment, after MapHost")
}

// wantWidened proves that m is the bytes from first to last of whole units of
// memory, and that no other is written. It frees m.
func (e *env) wantWidened(m core.Memory, whole []byte, first, last int64) {
	e.Helper()
	if m.Size != last-first || m.Device != e.dev {
		e.Errorf("mapped %d bytes, want %d, with the device as its Device", m.Size, last-first)
	}
	t := e.wrapBytes(m)
	copy(whole, e.pattern(int64(len(whole))))
	want := slices.Clone(whole)
	e.wantBytes(t, want[first:last], "mapped memory off the alignment")
	next := e.pattern(t.NumElements())
	copy(want[first:], next)
	e.write(t, next)
	if string(whole) != string(want) {
		e.Errorf("whole units of host memory after a write by the device: %s", difference(whole, want))
	}
	_ = t.Close()
}
