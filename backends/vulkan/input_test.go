//go:build vulkan && linux && cgo

package vulkan

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// exported makes exportable memory of 5000 bytes and a descriptor of it.
func exported(t *testing.T, d core.Device) (*core.Tensor, core.ExternalMemory) {
	t.Helper()
	x := row(t, d, 5000, core.AllocOptions{Export: core.HandleOpaqueFD})
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
	if err != nil {
		t.Fatal(err)
	}
	return x, m
}

func TestARefusedDescriptorStaysTheCallers(t *testing.T) {
	d := opened(t)
	_, good := exported(t, d)
	defer good.Close()
	small, err := unix.MemfdCreate("small", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(small) }()
	liar, err := unix.MemfdCreate("liar", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(liar) }()
	head := binary.NativeEndian.AppendUint64(nil, 1<<30) // the file has much less
	head = append(binary.NativeEndian.AppendUint64(head, 4096), make([]byte, 16384)...)
	if _, err := unix.Write(liar, head); err != nil {
		t.Fatal(err)
	}
	empty, lying := coretest.HandleOf(t, core.HandleOpaqueFD, small), coretest.HandleOf(t, core.HandleOpaqueFD, liar)
	ipc, err := backendkit.NewIPCHandle(core.VendorNVIDIA, []byte{1})
	if err != nil {
		t.Fatal(err)
	}

	before := descriptors()
	for _, c := range []struct {
		rule     string
		change   func(*core.ExternalMemory)
		sentinel error
	}{
		{"another device", func(m *core.ExternalMemory) { m.DeviceUUID[0]++ }, core.ErrDevice},
		{"another driver", func(m *core.ExternalMemory) { m.DriverUUID[15]++ }, core.ErrDevice},
		{"no UUID", func(m *core.ExternalMemory) { m.DeviceUUID = core.UUID{} }, core.ErrDevice},
		{"a kind of handle that nobody imports", func(m *core.ExternalMemory) { m.Handle = ipc }, core.ErrNotSupported},
		{"a closed descriptor", func(m *core.ExternalMemory) { m.Handle = coretest.DeadHandle(t, core.HandleOpaqueFD) }, core.ErrInvalid},
		{"an empty file", func(m *core.ExternalMemory) { m.Handle = empty }, core.ErrInvalid},
		{"a file that claims to be larger", func(m *core.ExternalMemory) { m.Handle = lying }, core.ErrInvalid},
		{"a Size one page above the descriptor's", func(m *core.ExternalMemory) { m.Size += 4096 }, core.ErrInvalid},
		{"a Size that no memory has", func(m *core.ExternalMemory) { m.Size, m.Length = math.MaxInt64, math.MaxInt64 }, core.ErrInvalid},
		{"another driver's memory that has no type", func(m *core.ExternalMemory) { m.MemoryType = backendkit.NoMemoryType; m.DriverUUID[15]++ }, core.ErrDevice},
		{"a memory type that the device lacks", func(m *core.ExternalMemory) { m.MemoryType = 31 }, core.ErrInvalid},
		{"a memory type beyond 32 bits of them", func(m *core.ExternalMemory) { m.MemoryType = math.MaxUint32 - 1 }, core.ErrInvalid},
		{"a range that overflows", func(m *core.ExternalMemory) { m.Offset, m.Length = math.MaxInt64, math.MaxInt64 }, core.ErrInvalid},
		{"no bytes", func(m *core.ExternalMemory) { m.Length = 0 }, core.ErrInvalid},
		{"a negative offset", func(m *core.ExternalMemory) { m.Offset = -1 }, core.ErrInvalid},
	} {
		bad := good
		c.change(&bad)
		if bad.Handle == lying && inner(d).importer().Files { // to this driver its head is memory like the rest
			continue
		}
		m, err := d.(core.MemoryImporter).ImportMemory(t.Context(), bad)
		if err == nil {
			m.Free()
		}
		wantError(t, err, c.sentinel, c.rule)
		wantDescriptors(t, before, c.rule)
	}
}

func TestAnImportedAllocationIsClosedOnce(t *testing.T) {
	d := opened(t)
	x, m := exported(t, d)
	put(t, d, x, pattern(5000, 1))
	before := descriptors()
	memory, err := d.(core.MemoryImporter).ImportMemory(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	imported := keep(t)(core.Wrap(memory, core.Spec{DType: core.TypeUint8, Shape: []int64{5000}}))
	if got := get(t, d, imported); !bytes.Equal(got, pattern(5000, 1)) {
		t.Error("the import has other bytes")
	}
	_ = imported.Close()
	wantDescriptors(t, before-1, "after the import was freed")
}

func TestMemoryThatVulkanDidNotMakeIsImported(t *testing.T) {
	d := opened(t)
	x, m := exported(t, d)
	put(t, d, x, pattern(5000, 3))
	m.MemoryType, m.DriverUUID = backendkit.NoMemoryType, core.UUID{}
	memory, err := d.(core.MemoryImporter).ImportMemory(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	imported := keep(t)(core.Wrap(memory, core.Spec{DType: core.TypeUint8, Shape: []int64{5000}}))
	if got := get(t, d, imported); !bytes.Equal(got, pattern(5000, 3)) {
		t.Error("the import has other bytes")
	}
}

func TestAHeapThatIsExhausted(t *testing.T) {
	d := opened(t)
	pool := d.(core.PoolController)
	pool.SetPoolLimit(10 << 20)
	held := row(t, d, 6<<20, core.AllocOptions{})
	for _, o := range []core.AllocOptions{{}, {HostVisible: true}, {Export: core.HandleOpaqueFD}} {
		_, err := d.Alloc(t.Context(), 6<<20, o)
		wantError(t, err, core.ErrOutOfMemory, "Alloc beyond the pool's limit")
	}
	_ = held.Close()
	row(t, d, 6<<20, core.AllocOptions{})
	pool.SetPoolLimit(0)
	p := inner(d).physical
	_, err := d.Alloc(t.Context(), p.MaxBuffer, core.AllocOptions{})
	wantError(t, err, core.ErrOutOfMemory, "Alloc of more than a VkBuffer can have")
	if heap := slices.Max(p.Heaps); heap < p.MaxBuffer-slack {
		_, err = d.Alloc(t.Context(), heap+1, core.AllocOptions{})
		wantError(t, err, core.ErrOutOfMemory, "Alloc of more than a heap has")
		m, err := d.Alloc(t.Context(), heap, core.AllocOptions{})
		m.Free()
		var e *core.Error
		if errors.As(err, &e) && e.Call == "Alloc" {
			t.Errorf("Alloc of a heap's size, %d bytes, was not left to the driver: %v", heap, err)
		}
	}
}

// A size is not rounded up to more than a VkBuffer can have, and what is freed serves the same size again.
func TestSizesNearThatOfTheLargestVkBuffer(t *testing.T) {
	d := opened(t)
	pool := d.(core.PoolController)
	const most = 8<<20 + 100
	inner(d).physical.MaxBuffer = most
	for _, size := range []int64{most - slack, 8<<20 + 1, 8 << 20, 7<<20 + 1} {
		hits := pool.PoolStats().Hits
		for range 2 {
			m, err := d.Alloc(t.Context(), size, core.AllocOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if o := inner(d).objects[m.Handle]; o.size < size || o.size > most {
				t.Errorf("%d bytes lie in a VkBuffer of %d", size, o.size)
			}
			m.Free()
		}
		if s := pool.PoolStats(); s.Hits != hits+1 || s.InUse != 0 {
			t.Errorf("%d bytes: %+v, with %d hits before", size, s, hits)
		}
		pool.TrimPool()
		if s := pool.PoolStats(); s.Cached != 0 {
			t.Errorf("%d bytes: %d are cached when all were given back", size, s.Cached)
		}
	}
}

func TestMapHostOffItsAlignment(t *testing.T) {
	d := openedWith(t, core.CapMapHost)
	all := pattern(3*4096, 2)
	host := keep(t)(core.FromSlice(all))
	base, err := host.Address()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ first, size int64 }{{1, 1}, {0, 5000}, {13, 4096}, {4095, 2}, {100, 3*4096 - 200}} {
		part := keep(t)(core.Wrap(core.Memory{ID: core.CPU, Handle: base + uintptr(c.first), Size: c.size}, core.Spec{DType: core.TypeUint8, Shape: []int64{c.size}}))
		b, _ := part.Buffer()
		m, err := d.(core.HostMapper).MapHost(t.Context(), b)
		if err != nil {
			t.Fatalf("%d bytes at %d: %v", c.size, c.first, err)
		}
		mapped := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{c.size}}))
		if got := get(t, d, mapped); !bytes.Equal(got, all[c.first:][:c.size]) {
			t.Errorf("%d bytes at %d: the device sees others", c.size, c.first)
		}
		_ = mapped.Close()
	}
	for rule, m := range map[string]core.Memory{
		"an unknown size":       {ID: core.CPU, Handle: base, Size: core.UnknownSize},
		"memory of a device":    {ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: base, Size: 4096},
		"memory that is opaque": {ID: core.DeviceID{Type: core.DeviceOpenCL}, Handle: base, Size: 4096},
	} {
		x := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{1}}))
		b, _ := x.Buffer()
		_, err := d.(core.HostMapper).MapHost(t.Context(), b)
		wantError(t, err, core.ErrInvalid, rule)
	}
}

// A struct that somebody else made is believed only as far as it can be checked.
func TestHostileDescriptors(t *testing.T) {
	d := opened(t)
	x := row(t, d, 4096, core.AllocOptions{})
	b, _ := x.Buffer()
	const words = 256
	handle := b.Memory().Handle
	good := unsafe.Slice(*(**byte)(unsafe.Pointer(&handle)), descriptorBytes)
	if _, _, err := BufferOf(x); err != nil {
		t.Fatal(err)
	}
	room := make([]uint64, words)
	bad := unsafe.Slice((*byte)(unsafe.Pointer(&room[0])), 8*words)
	at := uintptr(unsafe.Pointer(&room[0]))
	for _, c := range []struct {
		rule     string
		p        uintptr
		change   func()
		sentinel error
	}{
		{"NULL", 0, func() {}, core.ErrInvalid},
		{"nothing is mapped there", 0x10000, func() {}, core.ErrInvalid},
		{"misaligned", at + 4, func() {}, core.ErrInvalid},
		{"beyond the address space", math.MaxUint - 15, func() {}, core.ErrInvalid},
		{"another magic", at, func() { bad[0]++ }, core.ErrInvalid},
		{"a newer major version", at, func() { bad[8]++ }, core.ErrVersion},
		{"a struct that is too short", at, func() { bad[16]-- }, core.ErrVersion},
		{"another VkDevice", at, func() { bad[40]++ }, core.ErrInvalid},
		{"no VkBuffer", at, func() { clear(bad[56:64]) }, core.ErrInvalid},
		{"a size that no memory has", at, func() { bad[87] = 0xff }, core.ErrInvalid},
	} {
		copy(bad, good)
		c.change()
		m, err := d.(core.PointerImporter).ImportPointer(c.p, 16, nil)
		if err == nil {
			m.Free()
		}
		wantError(t, err, c.sentinel, c.rule)
	}
	copy(bad, good)
	m, err := d.(core.PointerImporter).ImportPointer(at, 16, nil)
	if err != nil {
		t.Fatalf("an exact copy: %v", err)
	}
	m.Free()
}

func TestCallsAfterClose(t *testing.T) {
	d := open(t)
	x := row(t, d, 100, core.AllocOptions{Export: core.HandleOpaqueFD})
	b, _ := x.Buffer()
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	host := keep(t)(core.FromSlice(make([]byte, 4096)))
	hb, _ := host.Buffer()
	_, err := d.Alloc(ctx, 1, core.AllocOptions{})
	wantError(t, err, core.ErrClosed, "Alloc")
	_, err = d.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
	wantError(t, err, core.ErrClosed, "ExportMemory")
	if mapper, ok := core.As[core.HostMapper](d); ok {
		_, err = mapper.MapHost(ctx, hb)
		wantError(t, err, core.ErrClosed, "MapHost")
	}
	_, err = d.(core.SemaphoreCreator).NewSemaphore(ctx, 0)
	wantError(t, err, core.ErrClosed, "NewSemaphore")
	_, _, err = BufferOf(x)
	wantError(t, err, core.ErrClosed, "BufferOf")
}
