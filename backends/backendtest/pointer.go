package backendtest

import (
	"math"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

var pointerCases = []Case{
	{
		Name:  "import-pointer/no-copy",
		Rule:  "core.PointerImporter: wraps memory without a copy, by address or by handle; each side sees the other's writes",
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
		Rule:  "core.PointerImporter: on success the memory owns owner, and frees it last and once; owner may be nil",
		Needs: core.CapImportPointer,
		run:   caseImportPointerOwner,
	},
	{
		Name:  "import-pointer/no-bytes",
		Rule:  "core.PointerImporter: if size is 0, p is not used",
		Needs: core.CapImportPointer,
		run:   caseImportNothing,
	},
	{
		Name:  "import-pointer/failure",
		Rule:  "core.PointerImporter: address 0, a negative size, and a range that overflows or leaves the object of a handle fail with ErrInvalid, and the caller keeps owner",
		Needs: core.CapImportPointer,
		run:   caseImportPointerFailure,
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

// pointer is memory to import, as the option Pointer makes it, else of the device
// itself. The bytes, which origin has, begin skip bytes from p: a handle may stand
// for more than one allocation.
func (e *env) pointer(size int64) (p uintptr, skip int64, origin *core.Tensor) {
	e.Helper()
	switch {
	case e.cfg.Pointer != nil:
		p = e.cfg.Pointer(e.TB, e.dev, size)
		return p, 0, e.importBytes(p, 0, size, nil)
	case e.props.ID.Type.OpaqueHandle():
		origin = e.bytes(size)
		b, err := origin.Buffer()
		e.check(err, "Buffer")
		return b.Memory().Handle, origin.Offset(), origin
	default:
		origin = e.bytes(size)
		return e.address(origin), 0, origin
	}
}

// importBytes imports size bytes that begin offset bytes from p. A handle is
// imported from its start.
func (e *env) importBytes(p uintptr, offset, size int64, owner core.Owner) *core.Tensor {
	e.Helper()
	if !e.props.ID.Type.OpaqueHandle() {
		p, offset = p+uintptr(offset), 0
	}
	m, err := as[core.PointerImporter](e).ImportPointer(p, offset+size, owner)
	e.check(err, "ImportPointer of %d bytes", offset+size)
	if m.Size != offset+size || m.ID != e.props.ID || m.Device != e.dev {
		e.Errorf("imported %d bytes on %v, want %d on %v with the device as its Device", m.Size, m.ID, offset+size, e.props.ID)
	}
	t, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{size}, Offset: offset})
	if err != nil {
		m.Free()
	}
	return e.keep(t, err)
}

func caseImportPointer(e *env) {
	content := e.pattern(1000)
	p, skip, origin := e.pointer(1000)
	e.write(origin, content)
	t := e.importBytes(p, skip+10, 500, nil)
	e.wantBytes(t, content[10:510], "imported memory")
	next := e.pattern(500)
	e.write(t, next)
	copy(content[10:], next)
	e.wantBytes(origin, content, "the origin, after a write to the import")
	next = e.pattern(1000)
	e.write(origin, next)
	e.wantBytes(t, next[10:510], "the import, after a write to the origin")
	_ = t.Close()
	e.wantBytes(origin, next, "the origin, after the import was closed")
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
	p, skip, _ := e.pointer(100)
	owner, freed := counted()
	t := e.importBytes(p, skip, 100, owner)
	view, err := t.Slice(0, 0, 10, 1)
	e.keep(view, err)
	s := e.stream()
	e.copy(s, e.bytes(10), view)
	_ = t.Close()
	if n := freed.Load(); n != 0 {
		e.Errorf("the owner was freed %d times while a view is open", n)
	}
	_ = view.Close()
	e.synchronize(s)
	e.wantFreedOnce(freed, "imported memory")

	owner, freed = counted()
	m, err := as[core.PointerImporter](e).ImportPointer(p, 100, owner)
	e.check(err, "ImportPointer")
	m.Free()
	e.wantFreedOnce(freed, "imported memory that was never wrapped")
}

func caseImportNothing(e *env) {
	for _, p := range []uintptr{0, 1} {
		owner, freed := counted()
		m, err := as[core.PointerImporter](e).ImportPointer(p, 0, owner)
		e.check(err, "ImportPointer(%#x, 0)", p)
		t := e.wrapBytes(m)
		e.copy(nil, t, e.hostBytes(nil))
		e.wantBytes(t, nil, "memory without bytes")
		_ = t.Close()
		e.wantFreedOnce(freed, "imported memory without bytes")
	}
}

func caseImportPointerFailure(e *env) {
	importer := as[core.PointerImporter](e)
	p, _, _ := e.pointer(100)
	type request struct {
		p    uintptr
		size int64
	}
	list := []request{{0, 16}, {p, -1}, {p, math.MinInt64}}
	if e.props.ID.Type.OpaqueHandle() { // a handle that is none may be anything to the driver
		list = append(list, request{p, 1 << 60})
	} else {
		list = append(list, request{math.MaxUint - 15, 4096})
	}
	for _, bad := range list {
		owner, freed := counted()
		m, err := importer.ImportPointer(bad.p, bad.size, owner)
		e.wantError(err, core.ErrInvalid, "ImportPointer(%#x, %d)", bad.p, bad.size)
		if err == nil {
			m.Free()
		} else if n := freed.Load(); n != 0 {
			e.Errorf("ImportPointer(%#x, %d) failed, but freed the owner %d times", bad.p, bad.size, n)
		}
	}
}
