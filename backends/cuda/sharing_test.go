//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"context"
	"encoding/hex"
	"math"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// exported allocates n bytes and exports them. The caller must close or import the handle.
func exported(t testing.TB, d core.Device, n int64) (*core.Tensor, core.ExternalMemory) {
	t.Helper()
	x := row(t, d, n, core.AllocOptions{Export: core.HandleOpaqueFD})
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

// imported imports m as a row of its bytes.
func imported(t testing.TB, d core.Device, m core.ExternalMemory) *core.Tensor {
	t.Helper()
	memory, err := d.(core.MemoryImporter).ImportMemory(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	return keep(t)(core.Wrap(memory, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Length}}))
}

// sharedKinds are the objects of sharing that the simulator counts.
var sharedKinds = []string{"vmm_handles", "reservations", "mappings", "external_memories", "external_buffers", "external_semaphores"}

func TestMemoryOfAnotherDriverIsUsedInPlace(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	for _, c := range []struct {
		rule                 string
		size, offset, length int64
		dedicated            bool
	}{
		{"all of an allocation", 1 << 20, 0, 1 << 20, false},
		{"a part", 1 << 20, 512, 5000, false},
		{"a part at an odd offset", 10000, 4097, 333, false},
		{"a dedicated allocation", 8192, 0, 5000, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			live := sim.Live()
			m, host := foreign(t, d, c.size)
			m.Offset, m.Length, m.Dedicated = c.offset, c.length, c.dedicated
			before := descriptors()
			x := imported(t, d, m)
			put(t, d, x, pattern(int(c.length), 1))
			want := make([]byte, c.size)
			copy(want[c.offset:], pattern(int(c.length), 1))
			if !bytes.Equal(host, want) {
				t.Error("the other driver sees other bytes than CUDA wrote")
			}
			copy(host[c.offset:], pattern(int(c.length), 2))
			if !bytes.Equal(get(t, d, x), pattern(int(c.length), 2)) {
				t.Error("CUDA sees other bytes than the other driver wrote")
			}
			_ = x.Close()
			if now := descriptors(); now != before-1 {
				t.Errorf("%d descriptors are open after the import was closed, %d were before", now, before)
			}
			wantLive(t, sim, live, sharedKinds...)
		})
	}
}

func TestAnotherDriverUsesMemoryOfCUDA(t *testing.T) {
	d := opened(t)
	simulator(t)
	x, m := exported(t, d, 5000)
	defer m.Close()
	if m.MemoryType != backendkit.NoMemoryType || m.Dedicated || m.Offset != 0 || m.Length != 5000 || m.Size < 5000 || m.Size%(64<<10) != 0 {
		t.Errorf("%+v: want 5000 bytes at the start of whole pages of the device, without a type of Vulkan", m)
	}
	host := view(t, coretest.FD(t, m.Handle), m.Size)
	put(t, d, x, pattern(5000, 1))
	if !bytes.Equal(host[:5000], pattern(5000, 1)) {
		t.Error("the other driver sees other bytes than CUDA wrote")
	}
	copy(host, pattern(5000, 2))
	if !bytes.Equal(get(t, d, x), pattern(5000, 2)) {
		t.Error("CUDA sees other bytes than the other driver wrote")
	}
}

func TestEachExportIsADescriptorOfItsOwn(t *testing.T) {
	d := opened(t)
	x, first := exported(t, d, 100)
	b, _ := x.Buffer()
	second, err := d.(core.MemoryExporter).ExportMemory(b, core.HandleOpaqueFD)
	if err != nil {
		t.Fatal(err)
	}
	put(t, d, x, pattern(100, 1))
	_ = first.Close()
	fd := coretest.FD(t, second.Handle)
	again := imported(t, d, second)
	_ = x.Close()
	if isOpen(fd) {
		t.Error("the imported descriptor is still the caller's")
	}
	if !bytes.Equal(get(t, d, again), pattern(100, 1)) {
		t.Error("the memory did not outlive its first owner")
	}
}

// The pool does not use exported memory again. All of an allocation counts in the pool's figures and limit.
func TestExportedMemoryCountsAsAWhole(t *testing.T) {
	d := opened(t)
	pool := d.(core.PoolController)
	before := pool.PoolStats()
	x, m := exported(t, d, 5000)
	_ = m.Close()
	now := pool.PoolStats()
	if got := now.InUse - before.InUse; got != m.Size {
		t.Errorf("%d bytes are in use, want %d", got, m.Size)
	}
	if got := now.Requested - before.Requested; got != 5000 {
		t.Errorf("%d bytes were requested, want 5000", got)
	}
	_ = x.Close()
	if now := pool.PoolStats(); now.InUse != before.InUse || now.Cached != before.Cached {
		t.Errorf("after Close %+v, before %+v: want nothing in use and nothing kept", now, before)
	}
	pool.SetPoolLimit(before.InUse + before.Cached + m.Size/2)
	_, err := d.Alloc(t.Context(), 1, core.AllocOptions{Export: core.HandleOpaqueFD})
	wantError(t, err, core.ErrOutOfMemory, "Alloc for export beyond the pool's limit")
	pool.SetPoolLimit(0)
	_, err = d.Alloc(t.Context(), math.MaxInt64, core.AllocOptions{Export: core.HandleOpaqueFD})
	wantError(t, err, core.ErrOutOfMemory, "Alloc for export of more than there is")
}

// wrongDescriptors returns handles of descriptors that are not memory, by the name of what they are.
func wrongDescriptors(t *testing.T) map[string]*core.Handle {
	t.Helper()
	var pipe, socket [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	socket, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.CreateTemp(t.TempDir(), "file")
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(64 << 20); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, fd := range []int{pipe[0], pipe[1], socket[0], socket[1], null} {
			_ = unix.Close(fd)
		}
		_ = file.Close()
	})
	handle := func(fd int) *core.Handle { return coretest.HandleOf(t, core.HandleOpaqueFD, fd) }
	all := map[string]*core.Handle{
		"a pipe": handle(pipe[0]), "a socket": handle(socket[0]), "a device": handle(null), "a file": handle(int(file.Fd())),
	}
	all["a closed descriptor"] = coretest.DeadHandle(t, core.HandleOpaqueFD) // last, so that no other descriptor gets its number
	return all
}

func TestARefusedDescriptorStaysTheCallers(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	_, ofCUDA := exported(t, d, 5000)
	ofOther, _ := foreign(t, d, 1<<20)
	defer ofCUDA.Close()
	defer ofOther.Close()
	foreigner := coretest.HandleOf(t, core.HandleDMABuf, coretest.FD(t, ofCUDA.Handle))
	type bad struct {
		rule     string
		change   func(*core.ExternalMemory)
		sentinel error
	}
	cases := []bad{
		{"another device", func(m *core.ExternalMemory) { m.DeviceUUID[0]++ }, core.ErrDevice},
		{"no device", func(m *core.ExternalMemory) { m.DeviceUUID = core.UUID{} }, core.ErrDevice},
		{"a UUID of a driver, though CUDA has none", func(m *core.ExternalMemory) { m.MemoryType = backendkit.NoMemoryType; m.DriverUUID[0]++ }, core.ErrDevice},
		{"a type that cannot be imported", func(m *core.ExternalMemory) { m.Handle = foreigner }, core.ErrNotSupported},
		{"a Size beyond the memory", func(m *core.ExternalMemory) { m.Size *= 2 }, core.ErrInvalid},
		{"a Size that no memory has", func(m *core.ExternalMemory) { m.Size, m.Length = math.MaxInt64, math.MaxInt64 }, core.ErrInvalid},
		{"a Size that rounds to no memory", func(m *core.ExternalMemory) { m.Size = math.MaxInt64 &^ (2<<20 - 1) }, core.ErrInvalid},
		{"a negative Size", func(m *core.ExternalMemory) { m.Size = math.MinInt64 }, core.ErrInvalid},
		{"an Offset beyond Size", func(m *core.ExternalMemory) { m.Offset = m.Size + 1 }, core.ErrInvalid},
		{"a negative Offset", func(m *core.ExternalMemory) { m.Offset = -1 }, core.ErrInvalid},
		{"a range that overflows", func(m *core.ExternalMemory) { m.Offset, m.Length = math.MaxInt64, math.MaxInt64 }, core.ErrInvalid},
		{"no bytes", func(m *core.ExternalMemory) { m.Length = 0 }, core.ErrInvalid},
		{"a negative Length", func(m *core.ExternalMemory) { m.Length = -1 }, core.ErrInvalid},
	}
	for what, h := range wrongDescriptors(t) {
		cases = append(cases, bad{what, func(m *core.ExternalMemory) { m.Handle = h }, core.ErrInvalid})
	}
	before, live := descriptors(), sim.Live()
	for of, good := range map[string]core.ExternalMemory{"CUDA": ofCUDA, "another driver": ofOther} {
		for _, c := range cases {
			m := good
			c.change(&m)
			memory, err := d.(core.MemoryImporter).ImportMemory(t.Context(), m)
			if err == nil {
				memory.Free()
			}
			wantError(t, err, c.sentinel, "memory of "+of+", "+c.rule)
			if now := descriptors(); now != before {
				t.Errorf("memory of %s, %s: %d descriptors are open, %d were", of, c.rule, now, before)
			}
		}
	}
	wantLive(t, sim, live, sharedKinds...)
}

func TestOnlyMemoryMadeForItIsExported(t *testing.T) {
	d := opened(t)
	plain := row(t, d, 100, core.AllocOptions{})
	empty := row(t, d, 0, core.AllocOptions{Export: core.HandleOpaqueFD})
	forFD, m := exported(t, d, 100)
	_ = m.Close()
	closed, _ := exportedBuffer(t, d)
	for _, c := range []struct {
		rule     string
		buffer   *core.Buffer
		as       core.HandleType
		sentinel error
	}{
		{"plain memory", buffer(t, plain), core.HandleOpaqueFD, core.ErrInvalid},
		{"no bytes", buffer(t, empty), core.HandleOpaqueFD, core.ErrInvalid},
		{"a type that cannot be exported", buffer(t, forFD), core.HandleMemFD, core.ErrNotSupported},
		{"no buffer", nil, core.HandleOpaqueFD, core.ErrInvalid},
		{"a closed buffer", closed, core.HandleOpaqueFD, core.ErrClosed},
	} {
		before := descriptors()
		_, err := d.(core.MemoryExporter).ExportMemory(c.buffer, c.as)
		wantError(t, err, c.sentinel, c.rule)
		if now := descriptors(); now != before {
			t.Errorf("%s: %d descriptors are open, %d were", c.rule, now, before)
		}
	}
}

// buffer returns the buffer of a tensor.
func buffer(t testing.TB, x *core.Tensor) *core.Buffer {
	t.Helper()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// exportedBuffer returns a buffer whose memory was freed.
func exportedBuffer(t testing.TB, d core.Device) (*core.Buffer, core.ExternalMemory) {
	t.Helper()
	x, m := exported(t, d, 100)
	_ = m.Close()
	b := buffer(t, x)
	_ = x.Close()
	return b, m
}

// Memory is not freed before the work on it is done, even if its tensors are closed.
func TestSharedMemoryOutlivesItsWork(t *testing.T) {
	sim := simulator(t)
	for rule, makeMemory := range map[string]func(*testing.T, core.Device) (*core.Tensor, []byte){
		"imported": func(t *testing.T, d core.Device) (*core.Tensor, []byte) {
			m, host := foreign(t, d, 1<<20)
			return imported(t, d, m), host
		},
		"exported": func(t *testing.T, d core.Device) (*core.Tensor, []byte) {
			x, m := exported(t, d, 1<<20)
			defer m.Close()
			return x, view(t, coretest.FD(t, m.Handle), m.Size)
		},
		"imported from CUDA": func(t *testing.T, d core.Device) (*core.Tensor, []byte) {
			x, m := exported(t, d, 1<<20)
			host := view(t, coretest.FD(t, m.Handle), m.Size)
			y := imported(t, d, m)
			_ = x.Close()
			return y, host
		},
	} {
		t.Run(rule, func(t *testing.T) {
			d := open(t)
			x, host := makeMemory(t, d)
			s, err := d.NewStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			src := keep(t)(core.FromSlice(pattern(1<<20, 4)))
			live := sim.Live()
			sim.Hold(true)
			defer sim.Hold(false)
			if err := d.Copy(t.Context(), s, x, src); err != nil {
				t.Fatal(err)
			}
			_ = x.Close()
			for _, kind := range []string{"mappings", "external_memories", "external_buffers"} {
				if now := sim.Live()[kind]; now != live[kind] {
					t.Errorf("%d %s while work uses them, want %d", now, kind, live[kind])
				}
			}
			sim.Hold(false)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Errorf("Close of the device while released memory waits for its work: %v", err)
			}
			if !bytes.Equal(host[:1<<20], pattern(1<<20, 4)) {
				t.Error("the work did not reach the memory")
			}
		})
	}
}

// memoryVariable is set in the importing process. Its value is the message, whose descriptor is number 3.
const memoryVariable = "DLX_CUDA_TEST_MEMORY"

func TestMemoryOfAnotherProcess(t *testing.T) {
	d := opened(t)
	if text := os.Getenv(memoryVariable); text != "" {
		data, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		m, err := core.UnmarshalExternalMemory(data, []int{3})
		if err != nil {
			t.Fatal(err)
		}
		x := imported(t, d, m)
		if !bytes.Equal(get(t, d, x), pattern(5000, 1)) {
			t.Error("the second process sees other bytes than the first one wrote")
		}
		put(t, d, x, pattern(5000, 2))
		return
	}
	x, m := exported(t, d, 5000)
	put(t, d, x, pattern(5000, 1))
	data, fds, err := m.MarshalWithFDs()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	second := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	file := os.NewFile(uintptr(fds[0]), "exported")
	defer file.Close()
	if _, err := m.Handle.Take(); err != nil { // file owns the descriptor
		t.Fatal(err)
	}
	second.ExtraFiles = []*os.File{file}
	second.Env = append(os.Environ(), memoryVariable+"="+hex.EncodeToString(data))
	if output, err := second.CombinedOutput(); err != nil {
		t.Fatalf("the second process: %v\n%s", err, output)
	}
	if !bytes.Equal(get(t, d, x), pattern(5000, 2)) {
		t.Error("the first process sees other bytes than the second one wrote")
	}
}
