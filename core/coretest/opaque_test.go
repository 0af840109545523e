package coretest

import (
	"errors"
	"slices"
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
	d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceWebGPU, Index: index})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d.(hostViewer)
}

// bufferOf gives the buffer of an open tensor.
func bufferOf(t *testing.T, x *core.Tensor) *core.Buffer {
	t.Helper()
	b, err := x.Buffer()
	must(t, err)
	return b
}

func TestOpaqueMemoryIsFoundByHandleAndOffset(t *testing.T) {
	b := NewBackend(Options{Submit: hostOrder, Opaque: true})
	d, peer := openOpaque(t, b, 0), openOpaque(t, b, 1)
	x, y, z := fresh(t, d, 3), fresh(t, d, 3), fresh(t, peer, 3)
	first, second := bufferOf(t, x).Memory(), bufferOf(t, y).Memory()
	if first.Handle != second.Handle || first.Offset == second.Offset {
		t.Errorf("two small memories have handles %d and %d, offsets %d and %d; want one handle", first.Handle, second.Handle, first.Offset, second.Offset)
	}
	if _, err := x.Address(); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("opaque memory has an address: %v", err)
	}
	got, other := make([]int32, 3), make([]int32, 3)
	must(t,
		d.Copy(t.Context(), nil, x, array(t, []int32{1, 2, 3})),
		d.Copy(t.Context(), nil, y, array(t, []int32{4, 5, 6})),
		peer.(core.PeerCopier).CopyPeer(t.Context(), nil, z, y, d),
		d.Copy(t.Context(), nil, array(t, got), x),
		peer.Copy(t.Context(), nil, array(t, other), z))
	if !slices.Equal(got, []int32{1, 2, 3}) || !slices.Equal(other, []int32{4, 5, 6}) {
		t.Errorf("the memories hold %v and %v", got, other)
	}
	lost, err := core.Wrap(core.Memory{ID: d.ID(), Handle: 9999, Size: 12}, core.Spec{DType: core.TypeInt32, Shape: []int64{3}})
	must(t, err)
	defer lost.Close()
	if err := d.Copy(t.Context(), nil, x, lost); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a copy from a handle that is none: %v", err)
	}
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
	if left := len(b.objects.list); left != 0 || pool.PoolStats().Cached != 0 {
		t.Errorf("%d objects are left, and the pool is %+v", left, pool.PoolStats())
	}
}

func TestOpaqueHandleIsImportedWithinItsObject(t *testing.T) {
	b := NewBackend(Options{Opaque: true})
	d, other := openOpaque(t, b, 0), openOpaque(t, b, 1)
	handle := bufferOf(t, fresh(t, d, 64)).Memory().Handle
	m, err := d.ImportPointer(handle, 256, nil)
	must(t, err)
	m.Free()
	for _, bad := range []struct {
		d    core.PointerImporter
		p    uintptr
		size int64
	}{{d, 0, 1}, {d, 9999, 1}, {d, handle, -1}, {d, handle, 1 << 20}, {other, handle, 1}} {
		if _, err := bad.d.ImportPointer(bad.p, bad.size, nil); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%d bytes of handle %d: %v", bad.size, bad.p, err)
		}
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
	if m.Size != 2*page || m.Offset != int64(uintptr(unsafe.Pointer(&part[0]))%page) {
		t.Errorf("the mapping has %d bytes from %d on", m.Size, m.Offset)
	}
	mapped, err := core.Wrap(m, core.Spec{DType: core.TypeInt32, Shape: []int64{2 * page / 4}})
	must(t, err)
	defer mapped.Close()
	got := make([]int32, len(part))
	must(t, d.Copy(t.Context(), nil, array(t, got), mapped))
	if !slices.Equal(got, part) {
		t.Error("the mapping holds something else")
	}
	closed := array(t, make([]int32, 1))
	gone := bufferOf(t, closed)
	must(t, closed.Close())
	for _, c := range []struct {
		b    *core.Buffer
		want error
	}{{nil, core.ErrInvalid}, {gone, core.ErrClosed}, {bufferOf(t, fresh(t, d, 1)), core.ErrInvalid}} {
		if _, err := d.MapHost(t.Context(), c.b); !errors.Is(err, c.want) {
			t.Errorf("mapping gives %v, want %v", err, c.want)
		}
	}
}

func TestOnlyHostVisibleMemoryIsShown(t *testing.T) {
	d := openOpaque(t, NewBackend(Options{Opaque: true}), 0)
	x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{5}, core.AllocOptions{HostVisible: true})
	must(t, err)
	b := bufferOf(t, x)
	m, err := d.HostView(t.Context(), b)
	must(t, err, x.Close()) // the view keeps the memory
	if m.ID != core.CPU || m.Device != nil || m.Size != 5 || *at(m.Handle, 4) != poisonFresh {
		t.Errorf("the view is %+v", m)
	}
	if err := d.Close(); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("closing a device whose memory is shown: %v", err)
	}
	m.Free()
	for _, c := range []struct {
		b    *core.Buffer
		want error
	}{{nil, core.ErrInvalid}, {b, core.ErrClosed}, {bufferOf(t, fresh(t, d, 1)), core.ErrNotSupported}, {bufferOf(t, array(t, []int32{1})), core.ErrDevice}} {
		if _, err := d.HostView(t.Context(), c.b); !errors.Is(err, c.want) {
			t.Errorf("the view gives %v, want %v", err, c.want)
		}
	}
	plain := openDevice(t, NewBackend(Options{}), 0)
	if _, err := plain.Alloc(t.Context(), 1, core.AllocOptions{HostVisible: true}); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("memory with addresses that the host sees: %v", err)
	}
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
	if notes.String() != "abc" {
		t.Errorf("%q has run when the import is closed", notes.String())
	}
	if _, err := imported.Record(); !errors.Is(err, core.ErrClosed) {
		t.Errorf("the closed import: %v", err)
	}
	must(t, origin.Synchronize(t.Context()))
	for _, bad := range []struct {
		d      core.StreamImporter
		native uintptr
	}{{d, 0}, {d, 9999}, {other, origin.Native()}} {
		if _, err := bad.d.ImportStream(t.Context(), bad.native); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("importing stream %d: %v", bad.native, err)
		}
	}
	must(t, origin.Close())
	if _, err := d.ImportStream(t.Context(), origin.Native()); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("importing a closed stream: %v", err)
	}
}

func TestOpaqueFaultsFire(t *testing.T) {
	b := NewBackend(Options{Opaque: true})
	d := openOpaque(t, b, 0)
	host := bufferOf(t, array(t, []int32{1}))
	for call, do := range map[string]func() error{
		"HostView":     func() error { _, err := d.HostView(t.Context(), host); return err },
		"MapHost":      func() error { _, err := d.MapHost(t.Context(), host); return err },
		"ImportStream": func() error { _, err := d.ImportStream(t.Context(), 1); return err },
	} {
		fired := b.Fail(call, 1, errInjected)
		if err := do(); !errors.Is(err, errInjected) || !fired() {
			t.Errorf("the call of %s that is to fail gives %v", call, err)
		}
	}
}
