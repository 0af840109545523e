package engine

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/backends/metal/internal/fake"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// wantError checks that a call failed as it must, with an error of Metal.
func wantError(t *testing.T, err, sentinel error, what string) {
	t.Helper()
	var typed *core.Error
	if !errors.Is(err, sentinel) || !errors.As(err, &typed) || typed.Backend != "metal" || typed.Call == "" {
		t.Errorf("%s: %v, want %v", what, err, sentinel)
	}
}

func TestABufferOfAnotherLibraryIsChecked(t *testing.T) {
	d, v := device1(t, fake.Config{})
	other := v.CopyDevices()
	defer func() {
		for _, id := range other {
			v.Release(id)
		}
	}()
	theirs := v.NewBuffer(other[1], 4096, driver.StoragePrivate)
	freed := v.NewBuffer(d.id, 4096, driver.StoragePrivate)
	v.Release(freed)
	queue := v.NewCommandQueue(d.id, 64)
	good := v.NewBuffer(d.id, 4096, driver.StoragePrivate)
	for _, c := range []struct {
		name string
		id   driver.ID
		size int64
	}{
		{"nil", 0, 16}, {"an address", 0x1234, 16}, {"a freed buffer", freed, 16}, {"a queue", queue, 16},
		{"a buffer of another GPU", theirs, 16}, {"beyond the buffer", good, 4097}, {"negative", good, -1},
	} {
		freed := 0
		_, err := d.ImportPointer(uintptr(c.id), c.size, core.FreeFunc(func() { freed++ }))
		wantError(t, err, core.ErrInvalid, c.name)
		if freed != 0 {
			t.Errorf("%s: the caller's owner was freed", c.name)
		}
	}
	m, err := d.ImportPointer(uintptr(good), 4096, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []driver.ID{theirs, queue, good} { // the import has retained its buffer
		v.Release(id)
	}
	if m.Host != 0 {
		t.Error("the host sees a private buffer")
	}
	x := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{4096}}))
	content := pattern(4096, 4)
	put(t, d, x, content)
	if got := get(t, d, x); !bytes.Equal(got, content) {
		t.Error("the imported buffer does not keep its bytes")
	}
	_ = x.Close()
}

// Memory of another library that comes by DLPack is not imported: a copy looks at its handle.
func TestACopyChecksAHandleThatItDoesNotKnow(t *testing.T) {
	d, v := device1(t, fake.Config{})
	raw := v.NewBuffer(d.id, 4096, driver.StoragePrivate)
	defer v.Release(raw)
	tensor := func(handle driver.ID, offset, n int64) *core.Tensor {
		return keep(t)(core.Wrap(core.Memory{ID: d.ID(), Handle: uintptr(handle), Size: core.UnknownSize},
			core.Spec{DType: core.TypeUint8, Shape: []int64{n}, Offset: offset}))
	}
	content := pattern(96, 1)
	host := keep(t)(core.FromSlice(content))
	for _, bad := range []*core.Tensor{tensor(raw, 4001, 96), tensor(0x10, 0, 96)} {
		wantError(t, d.Copy(t.Context(), nil, bad, host), core.ErrInvalid, bad.String())
	}
	x := tensor(raw, 4000, 96)
	put(t, d, x, content)
	if got := get(t, d, x); !bytes.Equal(got, content) {
		t.Errorf("read %v, wrote %v", got, content)
	}
}

func TestAQueueOfAnotherLibraryIsChecked(t *testing.T) {
	d, v := device1(t, fake.Config{})
	devices := v.CopyDevices()
	theirs, freed, event := v.NewCommandQueue(devices[1], 64), v.NewCommandQueue(d.id, 64), v.NewSharedEvent(d.id)
	v.Release(freed)
	for name, id := range map[string]driver.ID{"nil": 0, "an address": 0x30, "a freed queue": freed, "an event": event, "a queue of another GPU": theirs} {
		_, err := d.ImportStream(t.Context(), uintptr(id))
		wantError(t, err, core.ErrInvalid, name)
		if name != "an event" {
			_, err = ImportSharedEvent(d, uintptr(id))
			wantError(t, err, core.ErrInvalid, name)
		}
	}
	for _, id := range append(devices, theirs, event) {
		v.Release(id)
	}
}

func TestStreamsAndTensorsOfAnotherDeviceAreRefused(t *testing.T) {
	_, b := machine(t, fake.Config{})
	d, other := open(t, b, 0), open(t, b, 1)
	s, err := other.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, y := row(t, d, 64, core.AllocOptions{}), row(t, other, 64, core.AllocOptions{})
	z := row(t, d, 64, core.AllocOptions{})
	wantError(t, d.Copy(t.Context(), s, x, z), core.ErrDevice, "a stream of another device")
	wantError(t, d.Copy(t.Context(), nil, x, y), core.ErrDevice, "a tensor of another device")
	wantError(t, d.(core.PeerCopier).CopyPeer(t.Context(), nil, y, x, other), core.ErrDevice, "dst of the peer")
	_, _, err = BufferOf(keep(t)(core.FromSlice([]byte{1})))
	wantError(t, err, core.ErrDevice, "BufferOf")
	_, err = DeviceOf(coretestDevice(t))
	wantError(t, err, core.ErrDevice, "DeviceOf")
	if id, offset, err := BufferOf(x); id == 0 || offset != x.Offset() || err != nil {
		t.Errorf("BufferOf: %#x, %d, %v", id, offset, err)
	}
	for _, c := range []interface{ Close() error }{x, y, z, s, d, other} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err = DeviceOf(d)
	wantError(t, err, core.ErrClosed, "DeviceOf of a closed device")
}

// coretestDevice opens a device of another backend.
func coretestDevice(t *testing.T) core.Device {
	d, err := coretest.NewBackend(coretest.Options{}).Open(t.Context(), core.DeviceID{Type: core.DeviceExt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestMemoryThatThereIsNot(t *testing.T) {
	d, _ := device1(t, fake.Config{Memory: 1 << 20})
	_, err := d.Alloc(t.Context(), 1<<20, core.AllocOptions{})
	wantError(t, err, core.ErrOutOfMemory, "more than maxBufferLength")
	first := row(t, d, 500<<10, core.AllocOptions{})
	second := row(t, d, 400<<10, core.AllocOptions{})
	_, err = d.Alloc(t.Context(), 200<<10, core.AllocOptions{})
	wantError(t, err, core.ErrOutOfMemory, "more than is left")
	_ = first.Close()
	third := row(t, d, 300<<10, core.AllocOptions{}) // the pool gives back what it has kept
	_, err = d.Alloc(t.Context(), 1, core.AllocOptions{Type: core.DeviceCUDAHost})
	wantError(t, err, core.ErrNotSupported, "another type")
	_, err = d.Alloc(t.Context(), 1, core.AllocOptions{Export: core.HandleMachPort})
	wantError(t, err, core.ErrNotSupported, "for export")
	_ = second.Close()
	_ = third.Close()
}

// Host memory is mapped from the middle of a page to the middle of another one, and no other byte changes.
func TestHostMemoryIsUsedInPlace(t *testing.T) {
	d, v := device1(t, fake.Config{})
	page := os.Getpagesize()
	all := pattern(5*page, 2)
	start := page - int(uintptr(unsafe.Pointer(&all[0]))%uintptr(page)) + page/2 // of large slices, not all begin at a page
	want := bytes.Clone(all)
	part := all[start : start+3*page/2+17]
	host := keep(t)(core.FromSlice(part))
	b, err := host.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.MapHost(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if m.Host == 0 || m.Offset%int64(page) == 0 {
		t.Errorf("mapped as %+v", m)
	}
	mapped := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}}))
	on := row(t, d, m.Size, core.AllocOptions{})
	content := pattern(int(m.Size), 3)
	put(t, d, on, content)
	before := v.Calls()["Commit"]
	if err := d.Copy(t.Context(), nil, mapped, on); err != nil {
		t.Fatal(err)
	}
	if v.Calls()["Commit"] == before {
		t.Error("the GPU did not write the mapped memory")
	}
	copy(want[start:], content)
	if !bytes.Equal(all, want) {
		t.Error("the bytes of the host are wrong, in the memory or beside it")
	}
	for _, x := range []*core.Tensor{mapped, on} {
		_ = x.Close()
	}
	foreign := core.Memory{ID: core.CPU, Handle: uintptr(page), Size: 1, Origin: core.DeviceCUDA}
	wantError(t, d.CanMap(foreign), core.ErrNotSupported, "memory of another device")
}

// The memory of the host goes back to its owner when Metal has deallocated the buffer, which others may retain.
func TestMappedMemoryLivesAsLongAsItsBuffer(t *testing.T) {
	d, v := device1(t, fake.Config{})
	bytes, freed := pattern(3*os.Getpagesize(), 2), make(chan struct{})
	host, err := core.Wrap(core.Memory{
		ID: core.CPU, Handle: uintptr(unsafe.Pointer(&bytes[0])), Size: int64(len(bytes)), Owner: core.FreeFunc(func() { close(freed) }),
	}, core.Spec{DType: core.TypeUint8, Shape: []int64{int64(len(bytes))}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := host.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.MapHost(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	buffer := driver.ID(m.Handle)
	v.Retain(buffer)
	_ = host.Close()
	m.Free()
	select {
	case <-freed:
		t.Error("the memory is free, and the buffer over it has an owner")
	case <-time.After(20 * time.Millisecond):
	}
	v.Release(buffer)
	<-freed
	runtime.KeepAlive(bytes)
}

func TestTheFeaturesSayWhatIsMissing(t *testing.T) {
	d, _ := device1(t, fake.Config{})
	for _, f := range d.Properties().Features {
		if !f.Available && !strings.ContainsAny(f.Reason, " ") {
			t.Errorf("%s is missing without a reason", f.Name)
		}
	}
	_, err := d.NewSemaphore(t.Context(), core.HandleOpaqueFD)
	wantError(t, err, core.ErrNotSupported, "a semaphore for export")
}
