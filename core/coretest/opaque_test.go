package coretest

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// hostViewer is what all opaque devices are.
type hostViewer interface {
	core.Device
	core.PointerImporter
	core.HostMapper
	core.HostViewer
	core.StreamImporter
}

// openOpaque opens an opaque device that the test closes at its end.
func openOpaque(t *testing.T, b *Backend, index int32) hostViewer {
	t.Helper()
	return open(t, b, index).(hostViewer)
}

func TestOpaqueMemoryIsFoundByHandleAndOffset(t *testing.T) {
	b := NewBackend(Options{Submit: hostOrder, Opaque: true})
	d, peer := openOpaque(t, b, 0), openOpaque(t, b, 1)
	x, y, z := fresh(t, d, 3), fresh(t, d, 3), fresh(t, peer, 3)
	first, second := bufferOf(t, x).Memory(), bufferOf(t, y).Memory()
	if first.Handle != second.Handle || first.Offset == second.Offset {
		t.Errorf("two small memories have handles %d and %d, offsets %d and %d; want one handle", first.Handle, second.Handle, first.Offset, second.Offset)
	}
	WantError(t, errOf(x.Address()), core.ErrNotSupported, "the address of opaque memory")
	got, other := make([]int32, 3), make([]int32, 3)
	must(t,
		d.Copy(t.Context(), nil, x, array(t, []int32{1, 2, 3})),
		d.Copy(t.Context(), nil, y, array(t, []int32{4, 5, 6})),
		peer.(core.PeerCopier).CopyPeer(t.Context(), nil, z, y, d),
		d.Copy(t.Context(), nil, array(t, got), x),
		peer.Copy(t.Context(), nil, array(t, other), z))
	wantEqual(t, got, []int32{1, 2, 3}, "the first memory")
	wantEqual(t, other, []int32{4, 5, 6}, "the memory of the peer")
	lost := Keep(t)(core.Wrap(core.Memory{ID: d.ID(), Handle: 9999, Size: 12}, core.Spec{DType: core.TypeInt32, Shape: []int64{3}}))
	WantError(t, d.Copy(t.Context(), nil, x, lost), core.ErrInvalid, "a copy from a handle that is none")
}

func TestATrimmedOpaquePoolKeepsNoObjects(t *testing.T) {
	b := NewBackend(Options{Opaque: true})
	d := openOpaque(t, b, 0)
	pool := d.(core.PoolController)
	x, y := fresh(t, d, 3), fresh(t, d, 3)
	must(t, x.Close())
	pool.TrimPool()
	if m := bufferOf(t, y).Memory(); len(b.objects.list) != 1 || b.objects.list[m.Handle].size == 0 {
		t.Errorf("with a block in use the objects are %v", b.objects.list)
	}
	must(t, y.Close())
	pool.TrimPool()
	wantEqual(t, len(b.objects.list), 0, "objects that are left")
	wantEqual(t, pool.PoolStats().Cached, 0, "bytes that are cached")
}

func TestOpaqueHandleIsImportedWithinItsObject(t *testing.T) {
	b := NewBackend(Options{Opaque: true})
	d, other := openOpaque(t, b, 0), openOpaque(t, b, 1)
	handle := bufferOf(t, fresh(t, d, 64)).Memory().Handle
	must(t, freed(d.ImportPointer(handle, 256, nil)))
	for _, bad := range []struct {
		d    core.PointerImporter
		p    uintptr
		size int64
	}{{d, 0, 1}, {d, 9999, 1}, {d, handle, -1}, {d, handle, 1 << 20}, {other, handle, 1}} {
		WantError(t, errOf(bad.d.ImportPointer(bad.p, bad.size, nil)), core.ErrInvalid, fmt.Sprint(bad.size, " bytes of handle ", bad.p))
	}
}

func TestOpaqueDeviceMapsThePagesAroundHostMemory(t *testing.T) {
	d := openOpaque(t, NewBackend(Options{Submit: hostOrder, Opaque: true}), 0)
	block := make([]int32, 4*page/4)
	part := block[5 : 5+2*page/4]
	part[0], part[len(part)-1] = 1, 2
	host := array(t, part)
	m, err := d.MapHost(t.Context(), bufferOf(t, host))
	must(t, err)
	wantEqual(t, m.Size, 2*page, "the size of the mapping")
	wantEqual(t, m.Offset, int64(uintptr(unsafe.Pointer(&part[0]))%page), "the offset of the mapping")
	mapped := Keep(t)(core.Wrap(m, core.Spec{DType: core.TypeInt32, Shape: []int64{2 * page / 4}}))
	got := make([]int32, len(part))
	must(t, d.Copy(t.Context(), nil, array(t, got), mapped))
	wantEqual(t, got, part, "what is mapped")
	WantError(t, errOf(d.MapHost(t.Context(), nil)), core.ErrInvalid, "mapping nothing")
	WantError(t, errOf(d.MapHost(t.Context(), goneBuffer(t, array(t, got)))), core.ErrClosed, "mapping a closed buffer")
	WantError(t, errOf(d.MapHost(t.Context(), bufferOf(t, fresh(t, d, 1)))), core.ErrInvalid, "mapping device memory")
}

func TestOnlyHostVisibleMemoryIsShown(t *testing.T) {
	d := openOpaque(t, NewBackend(Options{Opaque: true}), 0)
	x := Row(t, d, 5, core.AllocOptions{HostVisible: true})
	b := bufferOf(t, x)
	m, err := d.HostView(t.Context(), b)
	must(t, err, x.Close()) // the view keeps the memory
	if m.ID != core.CPU || m.Device != nil || m.Size != 5 || *at(m.Handle, 4) != poisonFresh {
		t.Errorf("the view is %+v", m)
	}
	WantError(t, d.Close(), core.ErrInvalid, "closing a device whose memory is shown")
	m.Free()
	WantError(t, errOf(d.HostView(t.Context(), nil)), core.ErrInvalid, "a view of nothing")
	WantError(t, errOf(d.HostView(t.Context(), b)), core.ErrClosed, "a view of a closed buffer")
	WantError(t, errOf(d.HostView(t.Context(), bufferOf(t, fresh(t, d, 1)))), core.ErrNotSupported, "a view of plain memory")
	WantError(t, errOf(d.HostView(t.Context(), bufferOf(t, array(t, []int32{1})))), core.ErrDevice, "a view of host memory")
}

func TestImportedStreamHasTheWorkOfItsOrigin(t *testing.T) {
	b := NewBackend(Options{Opaque: true})
	d, other := openOpaque(t, b, 0), openOpaque(t, b, 1)
	origin, err := d.NewStream(t.Context())
	must(t, err)
	imported, err := d.ImportStream(t.Context(), origin.Native())
	must(t, err)
	var notes diary
	must(t,
		origin.(*Stream).Enqueue(notes.note("a")),
		imported.(*Stream).Enqueue(notes.note("b")),
		origin.(*Stream).Enqueue(notes.note("c")),
		imported.Close(), imported.Close())
	wantEqual(t, notes.String(), "abc", "what has run when the import is closed")
	WantError(t, errOf(imported.Record()), core.ErrClosed, "Record of the closed import")
	must(t, origin.Synchronize(t.Context()))
	for _, bad := range []struct {
		d      core.StreamImporter
		native uintptr
	}{{d, 0}, {d, 9999}, {other, origin.Native()}} {
		WantError(t, errOf(bad.d.ImportStream(t.Context(), bad.native)), core.ErrInvalid, fmt.Sprint("importing stream ", bad.native))
	}
	must(t, origin.Close())
	WantError(t, errOf(d.ImportStream(t.Context(), origin.Native())), core.ErrInvalid, "importing a closed stream")
}

func TestOpaqueFaultsFire(t *testing.T) {
	b := NewBackend(Options{Opaque: true})
	d := openOpaque(t, b, 0)
	host := bufferOf(t, array(t, []int32{1}))
	for call, do := range map[string]func() error{
		"HostView":     func() error { return errOf(d.HostView(t.Context(), host)) },
		"MapHost":      func() error { return errOf(d.MapHost(t.Context(), host)) },
		"ImportStream": func() error { return errOf(d.ImportStream(t.Context(), 1)) },
	} {
		fired := b.Fail(call, 1, errInjected)
		wantInjected(t, do(), call)
		wantEqual(t, fired(), true, "the fault fired")
	}
}
