package backendtest

import (
	"slices"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

var mapCases = []Case{
	{
		Name:  "map-host/no-copy",
		Rule:  "core.HostMapper: the result is the memory of host, whose address is its Memory.Host; each side sees the other's writes",
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
		Rule:  "core.HostMapper: if address or size are not multiples of HostAlignment, fails with ErrInvalid, or maps whole units and changes no byte outside host",
		Needs: core.CapMapHost,
		run:   caseMapHostAlignment,
	},
	{
		Name:  "map-host/refused",
		Rule:  "core.HostMapper.MapHost: fails with ErrInvalid for memory that the host cannot reach or of unknown size, and for a nil buffer; with ErrClosed for a closed one; nothing stays open",
		Needs: core.CapMapHost,
		run:   caseMapHostRefused,
	},
	{
		Name:  "map-host/read-only",
		Rule:  "core.HostMapper: memory that is marked as read-only is refused by CanMap and MapHost with ErrReadOnly, or mapped as memory that is marked, too; CanMap takes other memory of the host, and refuses what the host cannot reach",
		Needs: core.CapMapHost,
		run:   caseMapHostReadOnly,
	},
	{
		Name:  "map-host/order",
		Rule:  "core.Buffer.OrderWith: host memory and its mapping share one order; work on one waits for work on the other",
		Needs: core.CapMapHost | core.CapAsync,
		run:   caseMapHostOrder,
	},
}

// mappable is host memory that suits the device's HostAlignment, with the bytes
// that the host sees.
func (e *env) mappable(align, size int64) (*core.Tensor, []byte) {
	e.Helper()
	size = (size + align - 1) / align * align
	all := make([]byte, size+2*align)
	base := e.hostBytes(all)
	skip := 2*align - int64(e.address(base))%align // never 0: memory need not begin where an allocation does
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
	if m.Host != e.address(memory) && !e.props.ID.Type.HostAccessible() {
		e.Errorf("Memory.Host is %#x, and the host memory lies at %#x", m.Host, e.address(memory))
	}
	t := e.wrapBytes(m)
	e.wantBytes(t, host, "mapped memory")
	next := e.pattern(int64(len(host)))
	e.copy(nil, t, e.upload(next))
	if string(host) != string(next) {
		e.Errorf("the host's view after a write by the device: %s", difference(host, next))
	}
	copy(host, e.pattern(int64(len(host))))
	e.wantBytes(t, host, "mapped memory, after the host wrote to it again")
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
	for _, at := range []struct{ first, last int64 }{ // of the bytes from the end where negative
		{1, -1}, {0, -1}, {align - 1, 0}, {align / 2, align/2 - 2*align},
	} {
		whole, all := e.mappable(align, 3*align)
		first, last := at.first, at.last
		if last <= 0 {
			last += int64(len(all))
		}
		own, buffer, freed := e.hostBuffer(e.view(whole, core.Spec{DType: core.TypeUint8, Shape: []int64{last - first}, Offset: whole.Offset() + first}))
		m, err := mapper.MapHost(e.ctx, buffer)
		if err == nil {
			e.wantWidened(m, all, first, last)
		} else {
			e.wantError(err, core.ErrInvalid, "MapHost of bytes %d to %d of units of %d", first, last, align)
		}
		_ = own.Close()
		e.wantFreedOnce(freed, "host memory off the alignment, after MapHost")
		if e.Failed() {
			return
		}
	}
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

func caseMapHostRefused(e *env) {
	mapper := as[core.HostMapper](e)
	refused := func(b *core.Buffer, sentinel error, what string) {
		e.Helper()
		m, err := mapper.MapHost(e.ctx, b)
		e.wantError(err, sentinel, "MapHost of %s", what)
		if err == nil {
			m.Free()
		}
	}
	refused(nil, core.ErrInvalid, "no buffer")

	memory, _ := e.mappable(mapper.HostAlignment(), 5000)
	own, closed, freed := e.hostBuffer(memory)
	_ = own.Close()
	e.wantFreedOnce(freed, "the closed buffer")
	refused(closed, core.ErrClosed, "a closed buffer")

	unknown, err := core.Wrap(core.Memory{ID: core.CPU, Handle: e.address(memory), Size: core.UnknownSize}, core.Spec{DType: core.TypeUint8, Shape: []int64{1}})
	b, _ := e.keep(unknown, err).Buffer()
	refused(b, core.ErrInvalid, "memory of unknown size")

	if !e.props.ID.Type.HostAccessible() {
		b, err := e.bytes(4096).Buffer()
		e.check(err, "Buffer")
		refused(b, core.ErrInvalid, "memory of the device")
	}
}

func caseMapHostReadOnly(e *env) {
	mapper := as[core.HostMapper](e)
	memory, host := e.mappable(mapper.HostAlignment(), 5000)
	copy(host, e.pattern(int64(len(host))))
	m := core.Memory{ID: core.CPU, Handle: e.address(memory), Size: int64(len(host))}
	e.check(mapper.CanMap(m), "CanMap of memory of the host")
	if !e.props.ID.Type.HostAccessible() {
		b, err := e.bytes(64).Buffer()
		e.check(err, "Buffer")
		e.wantError(mapper.CanMap(b.Memory()), core.ErrInvalid, "CanMap of memory of the device")
	}

	owner, freed := counted()
	m.ReadOnly = true
	can := mapper.CanMap(m)
	if can != nil {
		e.wantError(can, core.ErrReadOnly, "CanMap of memory that is marked as read-only")
	}
	m.Owner = owner
	own := e.wrapBytes(m)
	b, err := own.Buffer()
	e.check(err, "Buffer")
	mapped, err := mapper.MapHost(e.ctx, b)
	if can != nil {
		e.wantError(err, core.ErrReadOnly, "MapHost of memory that is marked as read-only")
	}
	if err == nil {
		if !mapped.ReadOnly {
			e.Errorf("memory that is marked as read-only was mapped as %+v, which is not", mapped)
		}
		t := e.wrapBytes(mapped)
		e.wantBytes(t, host, "read-only memory")
		e.wantError(e.dev.Copy(e.ctx, nil, t, e.bytes(t.NumElements())), core.ErrReadOnly, "a copy into read-only memory")
		_ = t.Close()
	} else if can == nil {
		e.Errorf("CanMap takes memory that is marked as read-only, and MapHost fails: %v", err)
	}
	_ = own.Close()
	e.wantFreedOnce(freed, "read-only memory")
}

func caseMapHostOrder(e *env) {
	mapper := as[core.HostMapper](e)
	memory, _ := e.mappable(mapper.HostAlignment(), 5000)
	host, buffer, _ := e.hostBuffer(memory)
	m, err := mapper.MapHost(e.ctx, buffer)
	e.check(err, "MapHost")
	e.wantOneOrder(e.derived(m, buffer), host)
}
