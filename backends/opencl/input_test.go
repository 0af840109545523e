//go:build opencl && linux && cgo

package opencl_test

import (
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/opencl"
	"github.com/dlx-go/dlx/core"
)

func TestAllocRefusesWhatCannotBeHad(t *testing.T) {
	d := device(t)
	for name, c := range map[string]struct {
		size     int64
		opts     core.AllocOptions
		sentinel error
	}{
		"more than one cl_mem may have": {1 << 40, core.AllocOptions{}, core.ErrOutOfMemory},
		"export":                        {16, core.AllocOptions{Export: core.HandleOpaqueFD}, core.ErrNotSupported},
		"memory of another backend":     {16, core.AllocOptions{Type: core.DeviceCUDAHost}, core.ErrNotSupported},
	} {
		m, err := d.Alloc(t.Context(), c.size, c.opts)
		want(t, err, c.sentinel, name)
		if err == nil {
			m.Free()
		}
	}
}

func TestAnExhaustedHeapIsAnError(t *testing.T) {
	d := device(t)
	pool := d.(core.PoolController)
	pool.SetPoolLimit(1 << 20)
	var held []core.Memory
	for len(held) < 100 {
		m, err := d.Alloc(t.Context(), 300_000, core.AllocOptions{})
		if err != nil {
			want(t, err, core.ErrOutOfMemory, "Alloc beyond the limit")
			break
		}
		held = append(held, m)
	}
	if len(held) != 3 {
		t.Errorf("%d allocations of 300000 bytes within 1 MiB, want 3", len(held))
	}
	for _, m := range held {
		m.Free()
	}
	if s := pool.PoolStats(); s.InUse != 0 || s.Cached > 1<<20 {
		t.Errorf("after all was freed: %+v", s)
	}
}

func TestTensorsOfAnotherContextAreRefused(t *testing.T) {
	a, b := device(t), device(t)
	mine, theirs := upload(t, a, pattern(100, 1)), upload(t, b, pattern(100, 1))
	want(t, a.Copy(t.Context(), nil, mine, theirs), core.ErrDevice, "a source of another opened device")
	s, err := b.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want(t, a.Copy(t.Context(), s, mine, mine), core.ErrDevice, "a stream of another opened device")
	// As a tensor of DLPack has it: the place is right, the cl_mem is not.
	mem, _, err := opencl.MemOf(theirs)
	if err != nil {
		t.Fatal(err)
	}
	stray := keep(t)(core.Wrap(core.Memory{ID: first, Handle: mem, Size: 100}, core.Spec{DType: core.TypeUint8, Shape: []int64{100}}))
	want(t, a.Copy(t.Context(), nil, mine, stray), core.ErrInvalid, "a cl_mem of another cl_context")
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	q, err := a.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	want(t, q.Wait(e), core.ErrNotSupported, "an event of another cl_context")
}

// Pages at the end of a mapping are mapped whole; memory whose size nobody knows is not.
func TestMapHostRefusesMemoryOfUnknownSize(t *testing.T) {
	d := device(t)
	mapper, ok := core.As[core.HostMapper](d)
	if !ok {
		t.Skip("the device has memory of its own")
	}
	page := make([]byte, 8192)
	host := keep(t)(core.FromSlice(page))
	address, err := host.Address()
	if err != nil {
		t.Fatal(err)
	}
	mapped := func(m core.Memory) error {
		t.Helper()
		unsized, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{16}})
		if err != nil {
			t.Fatal(err)
		}
		defer unsized.Close()
		b, err := unsized.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		result, err := mapper.MapHost(t.Context(), b)
		if err == nil {
			result.Free()
		}
		return err
	}
	want(t, mapped(core.Memory{ID: core.CPU, Handle: address, Size: core.UnknownSize}), core.ErrInvalid, "no size")
	want(t, mapped(core.Memory{ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: address, Size: 16}), core.ErrInvalid, "memory of a device")
	if err := mapped(core.Memory{ID: core.CPU, Handle: address + 5, Size: 16}); err != nil {
		t.Errorf("off every alignment: %v", err)
	}
}

// A driver that pins the pages of host memory pins them for writing.
func TestMapHostRefusesMemoryThatTheHostCannotWrite(t *testing.T) {
	d := device(t)
	mapper, ok := core.As[core.HostMapper](d)
	if !ok {
		t.Skip("the device has memory of its own")
	}
	data, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(data) })
	m := core.Memory{ID: core.CPU, Handle: uintptr(unsafe.Pointer(&data[0])), Size: int64(len(data))}
	for _, m.ReadOnly = range []bool{false, true} {
		host := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}, Flags: core.FlagReadOnly}))
		b, err := host.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		mapped, err := mapper.MapHost(t.Context(), b)
		if err == nil {
			mapped.Free()
		}
		want(t, err, core.ErrReadOnly, "MapHost")
		if err := mapper.CanMap(m); (err != nil) != m.ReadOnly {
			t.Errorf("CanMap of memory that is marked: %v: %v", m.ReadOnly, err)
		}
		fresh := row(t, d, m.Size, core.AllocOptions{})
		if err := d.Copy(t.Context(), nil, fresh, host); err != nil {
			t.Errorf("a copy from it: %v", err)
		}
		get(t, d, fresh)
	}
}

func TestAClosedSemaphoreLetsStreamsGoWithAnError(t *testing.T) {
	d := device(t)
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sem, err := d.(core.SemaphoreCreator).NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := sem.WaitOn(s, 1); err != nil {
		t.Fatal(err)
	}
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	if err := sem.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(t.Context()); !errors.Is(err, core.ErrClosed) {
		t.Errorf("the event behind the wait: error %v, want %q", err, core.ErrClosed)
	}
	if err := s.Synchronize(t.Context()); !errors.Is(err, core.ErrClosed) {
		t.Errorf("Synchronize: error %v, want %q", err, core.ErrClosed)
	}
	if err := s.Synchronize(t.Context()); err != nil {
		t.Errorf("the next Synchronize: %v", err)
	}
}
