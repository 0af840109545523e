package coretest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// hostOrder is a submission that lets the host wait for everything.
func hostOrder(ctx context.Context, s core.Stream, writes, reads []*core.Tensor, enqueue func() error) error {
	var buffers []*core.Buffer
	for _, t := range slices.Concat(writes, reads) {
		b, err := t.Buffer()
		if err != nil {
			return err
		}
		for _, e := range b.Pending() {
			if err := e.Wait(ctx); err != nil {
				return err
			}
		}
		buffers = append(buffers, b)
	}
	if err := enqueue(); err != nil {
		return err
	}
	e, err := s.Record()
	if err == nil {
		for _, b := range buffers {
			b.Wrote(e)
		}
	}
	return err
}

// array makes a tensor of the slice in host memory, fresh one on the device.
func array(t *testing.T, s []int32) *core.Tensor {
	t.Helper()
	x, err := core.FromSlice(s)
	must(t, err)
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func fresh(t *testing.T, d core.Device, n int64) *core.Tensor {
	t.Helper()
	x, err := core.Empty(t.Context(), d, core.TypeInt32, []int64{n}, core.AllocOptions{})
	must(t, err)
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func TestCopiesThroughBothDevices(t *testing.T) {
	b := NewBackend(Options{Submit: hostOrder})
	d0, d1 := openDevice(t, b, 0), openDevice(t, b, 1)
	want, got := []int32{1, 2, 3}, make([]int32, 3)
	x, y := fresh(t, d0, 3), fresh(t, d1, 3)
	backwards, err := y.Slice(0, 2, -1, -1)
	must(t, err,
		d0.Copy(t.Context(), nil, x, array(t, want)),
		d1.CopyPeer(t.Context(), nil, backwards, x, d0),
		d1.Copy(t.Context(), openStream(t, d1), array(t, got), y),
		backwards.Close())
	if !slices.Equal(got, make([]int32, 3)) {
		t.Errorf("%v was there before anybody waited", got)
	}
	for b.Step() {
	}
	if !slices.Equal(got, []int32{3, 2, 1}) {
		t.Errorf("got %v", got)
	}
}

func TestCopyRefuses(t *testing.T) {
	b := NewBackend(Options{Submit: hostOrder})
	d0, d1, stranger := openDevice(t, b, 0), openDevice(t, b, 1), openDevice(t, NewBackend(Options{}), 0)
	x, y, h := fresh(t, d0, 2), fresh(t, d1, 2), array(t, []int32{1, 2})
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"of another device", d0.Copy(t.Context(), nil, x, y), core.ErrDevice},
		{"to another device", d0.Copy(t.Context(), nil, y, h), core.ErrDevice},
		{"within the host", d0.Copy(t.Context(), nil, array(t, []int32{0, 0}), h), core.ErrDevice},
		{"on another device's stream", d0.Copy(t.Context(), openStream(t, d1), x, h), core.ErrDevice},
		{"of another shape", d0.Copy(t.Context(), nil, x, array(t, []int32{1})), core.ErrLayout},
		{"from a stranger", d0.CopyPeer(t.Context(), nil, x, h, stranger), core.ErrNotSupported},
		{"without Submit", stranger.Copy(t.Context(), nil, fresh(t, stranger, 2), h), core.ErrNotSupported},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("a copy %s gives %v, want %v", c.name, c.err, c.want)
		}
	}
	if _, err := core.Values[int32](x); !errors.Is(err, core.ErrDevice) {
		t.Errorf("the host reads device memory: %v", err)
	}
}

func TestFaultsFire(t *testing.T) {
	b := NewBackend(Options{Submit: hostOrder})
	d := openDevice(t, b, 0)
	s := openStream(t, d)
	x, h := fresh(t, d, 16), array(t, make([]int32, 16))
	host, _ := h.Buffer()
	device, _ := x.Buffer()
	e, err := s.Record()
	must(t, err)
	m, err := d.NewSemaphore(t.Context(), 0)
	must(t, err)
	defer m.Close()
	drop := func(m core.Memory, err error) error {
		if err == nil {
			m.Free()
		}
		return err
	}
	for call, do := range map[string]func() error{
		"Alloc": func() error { return drop(d.Alloc(t.Context(), 1, core.AllocOptions{})) },
		"Open": func() error {
			other, err := b.Open(t.Context(), d.ID())
			if err == nil {
				err = other.Close()
			}
			return err
		},
		"NewStream": func() error {
			s, err := d.NewStream(t.Context())
			if err == nil {
				err = s.Close()
			}
			return err
		},
		"NewSemaphore": func() error {
			m, err := d.NewSemaphore(t.Context(), 0)
			if err == nil {
				err = m.Close()
			}
			return err
		},
		"Copy":          func() error { return d.Copy(t.Context(), s, x, h) },
		"CopyPeer":      func() error { return d.CopyPeer(t.Context(), s, x, h, d) },
		"ImportPointer": func() error { return drop(d.ImportPointer(device.Memory().Handle, 4, nil)) },
		"MapHost": func() error {
			err := drop(d.MapHost(t.Context(), host))
			if errors.Is(err, core.ErrInvalid) { // where the slice happens to lie
				return nil
			}
			return err
		},
		"Enqueue":     func() error { return s.Enqueue(func() error { return nil }) },
		"Record":      func() error { _, err := s.Record(); return err },
		"Wait":        func() error { return s.Wait(e) },
		"Synchronize": func() error { return s.Synchronize(t.Context()) },
		"WaitOn":      func() error { return m.WaitOn(s, 0) },
		"work": func() error {
			must(t, s.Enqueue(func() error { return nil }))
			return s.Synchronize(t.Context())
		},
	} {
		must(t, s.Synchronize(t.Context())) // no late work counts
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
}

func TestLostDeviceStaysLost(t *testing.T) {
	b := NewBackend(Options{Submit: hostOrder})
	d, other := openDevice(t, b, 0), openDevice(t, b, 1)
	s, safe := openStream(t, d), openStream(t, other)
	x := fresh(t, d, 1)
	m, err := d.NewSemaphore(t.Context(), 0)
	must(t, err, m.WaitOn(s, 1)) // which nobody will signal
	defer m.Close()
	ran := false
	must(t, s.Enqueue(func() error { ran = true; return nil }))
	e, err := s.Record()
	must(t, err)

	b.Lose(0)
	for range 2 {
		_, allocErr := d.Alloc(t.Context(), 1, core.AllocOptions{})
		_, streamErr := d.NewStream(t.Context())
		_, openErr := b.Open(t.Context(), d.ID())
		for call, err := range map[string]error{
			"Alloc": allocErr, "NewStream": streamErr, "Open": openErr, "event": e.Wait(t.Context()),
			"Copy": d.Copy(t.Context(), s, x, array(t, []int32{1})), "Synchronize": s.Synchronize(t.Context()),
		} {
			if !errors.Is(err, core.ErrDeviceLost) {
				t.Errorf("%s gives %v", call, err)
			}
		}
	}
	if ran {
		t.Error("work ran on a lost device")
	}
	must(t, safe.Enqueue(func() error { return nil }), safe.Synchronize(t.Context()))
}

// bytesOf gives the memory that an address of a device stands for.
func bytesOf(m core.Memory) []byte {
	b := make([]byte, m.Size)
	for i := range b {
		b[i] = *at(m.Handle, int64(i))
	}
	return b
}

func TestMemoryIsPoisonedAndUsedAgainAtOnce(t *testing.T) {
	d := openDevice(t, NewBackend(Options{}), 0)
	m, err := d.Alloc(t.Context(), 5, core.AllocOptions{})
	must(t, err)
	if got := bytesOf(m); !slices.Equal(got, slices.Repeat([]byte{poisonFresh}, 5)) {
		t.Errorf("fresh memory holds %x", got)
	}
	m.Free()
	if got := bytesOf(m); !slices.Equal(got, slices.Repeat([]byte{poisonFreed}, 5)) {
		t.Errorf("freed memory holds %x", got)
	}
	again, err := d.Alloc(t.Context(), 200, core.AllocOptions{})
	must(t, err)
	if again.Handle != m.Handle {
		t.Error("memory that was freed last is not allocated first")
	}
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
	m, err := d.Alloc(t.Context(), 1, core.AllocOptions{})
	must(t, err)
	var seen byte
	must(t, s.Enqueue(func() error { seen = *at(m.Handle, 0); return nil }))
	e, err := s.Record()
	must(t, err)
	m.Owner.(backendkit.OrderedOwner).FreeAfter([]core.Event{e, e})
	if *at(m.Handle, 0) != poisonFresh {
		t.Error("the memory was freed before the work was done")
	}
	if err := d.Close(); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("closing a device in use gives %v", err)
	}
	must(t, s.Close())
	if seen != poisonFresh || *at(m.Handle, 0) != poisonFreed {
		t.Errorf("the work saw %x, then the memory holds %x", seen, *at(m.Handle, 0))
	}
}

func TestPool(t *testing.T) {
	d := openDevice(t, NewBackend(Options{}), 0)
	d.SetPoolLimit(1024)
	m, err := d.Alloc(t.Context(), 300, core.AllocOptions{})
	must(t, err)
	if _, err := d.Alloc(t.Context(), 513, core.AllocOptions{}); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("passing the limit gives %v", err)
	}
	m.Free()
	n, err := d.Alloc(t.Context(), 1024, core.AllocOptions{}) // takes the place of what is cached
	must(t, err)
	want := core.PoolStats{InUse: 1024, Requested: 1024, Peak: 1024, Limit: 1024, Allocs: 3, Failures: 1}
	if got := d.PoolStats(); got != want {
		t.Errorf("the pool has %+v, want %+v", got, want)
	}
	n.Free()
	d.TrimPool()
	want = core.PoolStats{Peak: 1024, Limit: 1024, Allocs: 3, Failures: 1}
	if got := d.PoolStats(); got != want {
		t.Errorf("after all the pool has %+v, want %+v", got, want)
	}
	for _, c := range []struct {
		size int64
		opts core.AllocOptions
		want error
	}{
		{-1, core.AllocOptions{}, core.ErrInvalid},
		{1 << 62, core.AllocOptions{}, core.ErrOutOfMemory},
		{1, core.AllocOptions{Type: core.DeviceCUDAHost}, core.ErrNotSupported},
		{1, core.AllocOptions{Export: core.HandleMemFD}, core.ErrNotSupported},
	} {
		if _, err := d.Alloc(t.Context(), c.size, c.opts); !errors.Is(err, c.want) {
			t.Errorf("Alloc(%d, %+v) gives %v", c.size, c.opts, err)
		}
	}
}

func TestImportPointer(t *testing.T) {
	d := openDevice(t, NewBackend(Options{}), 0)
	m, err := d.Alloc(t.Context(), 100, core.AllocOptions{})
	must(t, err)
	defer m.Free()
	freed := 0
	part, err := d.ImportPointer(m.Handle+40, 60, core.FreeFunc(func() { freed++ }))
	must(t, err)
	if part.Handle != m.Handle+40 || part.Size != 60 {
		t.Errorf("the import is %+v", part)
	}
	part.Free()
	if freed != 1 {
		t.Errorf("the owner was told %d times", freed)
	}
	for _, bad := range []struct {
		p    uintptr
		size int64
	}{{0, 1}, {m.Handle, 101}, {m.Handle + 41, 60}, {m.Handle - 1, 1}, {m.Handle, -1}, {m.Handle &^ deviceBit, 1}, {^uintptr(0), 1}} {
		if _, err := d.ImportPointer(bad.p, bad.size, nil); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%d bytes at %#x: %v", bad.size, bad.p, err)
		}
	}
}

func TestMapHost(t *testing.T) {
	d := openDevice(t, NewBackend(Options{}), 0)
	block := aligned(512)
	block[0] = 42
	h, err := core.FromSlice(block[:256])
	must(t, err)
	buffer, _ := h.Buffer()
	m, err := d.MapHost(t.Context(), buffer)
	must(t, err, h.Close()) // the mapping keeps the memory
	if m.ID != d.ID() || m.Size != 256 || *at(m.Handle, 0) != 42 {
		t.Errorf("the mapping is %+v, its first byte %d", m, *at(m.Handle, 0))
	}
	m.Free()
	for name, part := range map[string][]byte{"address": block[1:257], "size": block[:255]} {
		h, err := core.FromSlice(part)
		must(t, err)
		buffer, _ := h.Buffer()
		if _, err := d.MapHost(t.Context(), buffer); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("an %s that is not aligned: %v", name, err)
		}
		must(t, h.Close())
	}
	for want, b := range map[error]*core.Buffer{core.ErrInvalid: nil, core.ErrClosed: buffer} {
		if _, err := d.MapHost(t.Context(), b); !errors.Is(err, want) {
			t.Errorf("mapping gives %v, want %v", err, want)
		}
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
		d := openDevice(t, b, int32(i))
		if d.ID() != p.ID || d.Properties().ID != p.ID {
			t.Errorf("device %d is %v and %v", i, d.ID(), p.ID)
		}
	}
	for _, id := range []core.DeviceID{core.CPU, {Type: core.DeviceExt, Index: 2}, {Type: core.DeviceExt, Index: -1}} {
		if _, err := b.Open(t.Context(), id); !errors.Is(err, core.ErrDevice) {
			t.Errorf("opening %v gives %v", id, err)
		}
	}
	d := openDevice(t, b, 0)
	must(t, d.Close(), d.Close())
	if _, err := d.NewStream(t.Context()); !errors.Is(err, core.ErrClosed) {
		t.Errorf("a closed device gives %v", err)
	}
}
