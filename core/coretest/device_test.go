package coretest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

func TestCopiesThroughBothDevices(t *testing.T) {
	b := NewBackend(Options{Submit: hostOrder})
	d0, d1 := openDevice(t, b, 0), openDevice(t, b, 1)
	want, got := []int32{1, 2, 3}, make([]int32, 3)
	x, y := fresh(t, d0, 3), fresh(t, d1, 3)
	backwards := Keep(t)(y.Slice(0, 2, -1, -1))
	must(t,
		d0.Copy(t.Context(), nil, x, array(t, want)),
		d1.CopyPeer(t.Context(), nil, backwards, x, d0),
		d1.Copy(t.Context(), openStream(t, d1), array(t, got), y))
	wantEqual(t, got, make([]int32, 3), "what was there before anybody waited")
	for b.Step() {
	}
	wantEqual(t, got, []int32{3, 2, 1}, "what was copied")
}

func TestCopyRefuses(t *testing.T) {
	b := NewBackend(Options{Submit: hostOrder})
	d0, d1, stranger := openDevice(t, b, 0), openDevice(t, b, 1), openDevice(t, NewBackend(Options{}), 0)
	x, y, h := fresh(t, d0, 2), fresh(t, d1, 2), array(t, []int32{1, 2})
	WantError(t, d0.Copy(t.Context(), nil, x, y), core.ErrDevice, "a copy of another device")
	WantError(t, d0.Copy(t.Context(), nil, y, h), core.ErrDevice, "a copy to another device")
	WantError(t, d0.Copy(t.Context(), nil, array(t, []int32{0, 0}), h), core.ErrDevice, "a copy within the host")
	WantError(t, d0.Copy(t.Context(), openStream(t, d1), x, h), core.ErrDevice, "a copy on another device's stream")
	WantError(t, d0.Copy(t.Context(), nil, x, array(t, []int32{1})), core.ErrLayout, "a copy of another shape")
	WantError(t, d0.CopyPeer(t.Context(), nil, x, h, stranger), core.ErrNotSupported, "a copy from a stranger")
	WantError(t, stranger.Copy(t.Context(), nil, fresh(t, stranger, 2), h), core.ErrNotSupported, "a copy without Submit")
	WantError(t, errOf(core.Values[int32](x)), core.ErrDevice, "device memory that the host reads")
}

// wantFault checks that the second call of do fails with an injected fault, and no other.
func wantFault(t *testing.T, b *Backend, call string, do func() error) {
	t.Helper()
	fired := b.Fail(call, 2, errInjected)
	if err := do(); err != nil || fired() {
		t.Errorf("the call of %s before the fault gives %v", call, err)
	}
	var typed *core.Error
	if err := do(); !errors.Is(err, errInjected) || !errors.As(err, &typed) || typed.Call != call || !fired() {
		t.Errorf("the call of %s that is to fail gives %v", call, err)
	}
	if err := do(); err != nil {
		t.Errorf("the call of %s after the fault gives %v", call, err)
	}
}

func TestFaultsFire(t *testing.T) {
	b := NewBackend(Options{Submit: hostOrder})
	d := openDevice(t, b, 0)
	s, m := openStream(t, d), openSemaphore(t, d)
	x, h := fresh(t, d, 16), Keep(t)(core.FromSlice(aligned(256)))
	e := record(t, s)
	ctx := t.Context()
	for call, do := range map[string]func() error{
		"Alloc":         func() error { return freed(d.Alloc(ctx, 1, core.AllocOptions{})) },
		"Open":          func() error { return closed(b.Open(ctx, d.ID())) },
		"NewStream":     func() error { return closed(d.NewStream(ctx)) },
		"NewSemaphore":  func() error { return closed(d.NewSemaphore(ctx, 0)) },
		"Copy":          func() error { return d.Copy(ctx, s, x, array(t, make([]int32, 16))) },
		"CopyPeer":      func() error { return d.CopyPeer(ctx, s, x, array(t, make([]int32, 16)), d) },
		"ImportPointer": func() error { return freed(d.ImportPointer(bufferOf(t, x).Memory().Handle, 4, nil)) },
		"MapHost":       func() error { return freed(d.MapHost(ctx, bufferOf(t, h))) },
		"Enqueue":       func() error { return s.Enqueue(nothing) },
		"Record":        func() error { return errOf(s.Record()) },
		"Wait":          func() error { return s.Wait(e) },
		"Synchronize":   func() error { return s.Synchronize(ctx) },
		"WaitOn":        func() error { return m.WaitOn(s, 0) },
		"work":          func() error { must(t, s.Enqueue(nothing)); return s.Synchronize(ctx) },
	} {
		must(t, s.Synchronize(ctx)) // no late work counts
		wantFault(t, b, call, do)
	}
}

func TestLostDeviceStaysLost(t *testing.T) {
	b := NewBackend(Options{Submit: hostOrder})
	d, other := openDevice(t, b, 0), openDevice(t, b, 1)
	s, safe := openStream(t, d), openStream(t, other)
	x := fresh(t, d, 1)
	must(t, openSemaphore(t, d).WaitOn(s, 1)) // which nobody will signal
	ran := false
	must(t, s.Enqueue(func() error { ran = true; return nil }))
	e := record(t, s)

	b.Lose(0)
	for range 2 {
		WantError(t, errOf(d.Alloc(t.Context(), 1, core.AllocOptions{})), core.ErrDeviceLost, "Alloc")
		WantError(t, errOf(d.NewStream(t.Context())), core.ErrDeviceLost, "NewStream")
		WantError(t, errOf(b.Open(t.Context(), d.ID())), core.ErrDeviceLost, "Open")
		WantError(t, e.Wait(t.Context()), core.ErrDeviceLost, "the event")
		WantError(t, d.Copy(t.Context(), s, x, array(t, []int32{1})), core.ErrDeviceLost, "Copy")
		WantError(t, s.Synchronize(t.Context()), core.ErrDeviceLost, "Synchronize")
	}
	wantEqual(t, ran, false, "work ran on a lost device")
	must(t, safe.Enqueue(nothing), safe.Synchronize(t.Context()))
}

// wantBytes checks the memory that an address of a device stands for.
func wantBytes(t *testing.T, m core.Memory, want byte, what string) {
	t.Helper()
	for i := range m.Size {
		if got := *at(m.Handle, i); got != want {
			t.Errorf("%s holds %x at %d, want %x", what, got, i, want)
		}
	}
}

func TestMemoryIsPoisonedAndUsedAgainAtOnce(t *testing.T) {
	d := openDevice(t, NewBackend(Options{}), 0)
	m := alloc(t, d, 5)
	wantBytes(t, m, poisonFresh, "fresh memory")
	m.Free()
	wantBytes(t, m, poisonFreed, "freed memory")
	again := alloc(t, d, 200)
	wantEqual(t, again.Handle, m.Handle, "the memory allocated after a Free")
	again.Free()
	defer func() {
		if recover() == nil {
			t.Error("a second Free went unnoticed")
		}
	}()
	again.Free()
}

func TestMemoryIsFreedAfterLateWork(t *testing.T) {
	d := openDevice(t, NewBackend(Options{}), 0)
	s := openStream(t, d)
	m := alloc(t, d, 1)
	var seen byte
	must(t, s.Enqueue(func() error { seen = *at(m.Handle, 0); return nil }))
	e := record(t, s)
	m.Owner.(backendkit.OrderedOwner).FreeAfter([]core.Event{e, e})
	wantBytes(t, m, poisonFresh, "memory with late work")
	WantError(t, d.Close(), core.ErrInvalid, "closing a device in use")
	must(t, s.Close())
	wantEqual(t, seen, poisonFresh, "what the work saw")
	wantBytes(t, m, poisonFreed, "memory whose work is done")
}

func TestPool(t *testing.T) {
	d := openDevice(t, NewBackend(Options{}), 0)
	d.SetPoolLimit(1024)
	m := alloc(t, d, 300)
	WantError(t, errOf(d.Alloc(t.Context(), 513, core.AllocOptions{})), core.ErrOutOfMemory, "passing the limit")
	m.Free()
	n := alloc(t, d, 1024) // takes the place of what is cached
	wantEqual(t, d.PoolStats(), core.PoolStats{InUse: 1024, Requested: 1024, Peak: 1024, Limit: 1024, Allocs: 3, Failures: 1}, "the pool")
	n.Free()
	d.TrimPool()
	wantEqual(t, d.PoolStats(), core.PoolStats{Peak: 1024, Limit: 1024, Allocs: 3, Failures: 1}, "the pool")
	for _, c := range []struct {
		what string
		size int64
		opts core.AllocOptions
		want error
	}{
		{"of a negative size", -1, core.AllocOptions{}, core.ErrInvalid},
		{"of a huge size", 1 << 62, core.AllocOptions{}, core.ErrOutOfMemory},
		{"of another type", 1, core.AllocOptions{Type: core.DeviceCUDAHost}, core.ErrNotSupported},
		{"for export", 1, core.AllocOptions{Export: core.HandleMemFD}, core.ErrNotSupported},
		{"that the host sees", 1, core.AllocOptions{HostVisible: true}, core.ErrNotSupported},
	} {
		WantError(t, errOf(d.Alloc(t.Context(), c.size, c.opts)), c.want, "memory "+c.what)
	}
}

func TestImportPointer(t *testing.T) {
	d := openDevice(t, NewBackend(Options{}), 0)
	m := alloc(t, d, 100)
	defer m.Free()
	told := 0
	part, err := d.ImportPointer(m.Handle+40, 60, core.FreeFunc(func() { told++ }))
	must(t, err)
	wantEqual(t, part.Handle, m.Handle+40, "the handle of the import")
	wantEqual(t, part.Size, 60, "the size of the import")
	part.Free()
	wantEqual(t, told, 1, "how often the owner was told")
	for _, bad := range []struct {
		p    uintptr
		size int64
	}{{0, 1}, {m.Handle, 101}, {m.Handle + 41, 60}, {m.Handle - 1, 1}, {m.Handle, -1}, {m.Handle &^ deviceBit, 1}, {^uintptr(0), 1}} {
		WantError(t, errOf(d.ImportPointer(bad.p, bad.size, nil)), core.ErrInvalid, fmt.Sprintf("%d bytes at %#x", bad.size, bad.p))
	}
}

func TestMapHost(t *testing.T) {
	d := openDevice(t, NewBackend(Options{}), 0)
	block := aligned(512)
	block[0] = 42
	h := array(t, block[:256])
	m, err := d.MapHost(t.Context(), bufferOf(t, h))
	must(t, err)
	gone := goneBuffer(t, h) // the mapping keeps the memory
	if m.ID != d.ID() || m.Size != 256 || *at(m.Handle, 0) != 42 {
		t.Errorf("the mapping is %+v, its first byte %d", m, *at(m.Handle, 0))
	}
	m.Free()
	for _, c := range []struct {
		what string
		b    *core.Buffer
		want error
	}{
		{"an address that is not aligned", bufferOf(t, array(t, block[1:257])), core.ErrInvalid},
		{"a size that is not aligned", bufferOf(t, array(t, block[:255])), core.ErrInvalid},
		{"no buffer", nil, core.ErrInvalid},
		{"a closed buffer", gone, core.ErrClosed},
	} {
		WantError(t, errOf(d.MapHost(t.Context(), c.b)), c.want, c.what)
	}
}

func TestBackendListsWhatItOpens(t *testing.T) {
	b := NewBackend(Options{})
	list, err := b.Devices(t.Context())
	must(t, err)
	if len(list) != deviceCount || b.Name() != core.DeviceExt.BackendName() || !b.Probe(t.Context()).Available {
		t.Errorf("%s has %d devices", b.Name(), len(list))
	}
	for i, p := range list {
		if d := openDevice(t, b, int32(i)); d.ID() != p.ID || d.Properties().ID != p.ID {
			t.Errorf("device %d is %v and %v", i, d.ID(), p.ID)
		}
	}
	for _, id := range []core.DeviceID{core.CPU, {Type: core.DeviceExt, Index: 2}, {Type: core.DeviceExt, Index: -1}} {
		WantError(t, errOf(b.Open(t.Context(), id)), core.ErrDevice, "opening "+id.String())
	}
	d := openDevice(t, b, 0)
	must(t, d.Close(), d.Close())
	WantError(t, errOf(d.NewStream(t.Context())), core.ErrClosed, "a stream of a closed device")
}
