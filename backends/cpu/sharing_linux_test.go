package cpu

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// system counts what this process holds of the system: descriptors, and mappings of memfds.
func system(t *testing.T) (fds, mappings int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return len(list), bytes.Count(maps, []byte("/memfd:"))
}

// sharing opens a device that can share memory; at the test's end all that the
// test took from the system must be given back.
func sharing(t *testing.T) (testDevice, *device) {
	t.Helper()
	if err := probeMemFD(); err != nil {
		t.Skip(err)
	}
	fds, mappings := system(t)
	t.Cleanup(func() {
		if f, m := system(t); f != fds || m != mappings {
			t.Errorf("%d descriptors and %d mappings, before the test %d and %d", f, m, fds, mappings)
		}
	})
	d := open(t)
	return d, d.Device.(*device)
}

// export allocates memory for n int32 that can be exported, filled with 0, 1, 2...
func export(t *testing.T, d *device, n int64) (*core.Tensor, core.ExternalMemory) {
	t.Helper()
	x := keep(t)(core.Empty(ctx, d, core.TypeInt32, []int64{n}, core.AllocOptions{Export: core.HandleMemFD}))
	memory, err := core.Mutable[int32](x)
	if err != nil {
		t.Fatal(err)
	}
	copy(memory, sequence(n))
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	m, err := d.ExportMemory(b, core.HandleMemFD)
	if err != nil {
		t.Fatal(err)
	}
	return x, m
}

// wrap makes a tensor of int32 of imported memory.
func wrap(t *testing.T, m core.Memory, err error) *core.Tensor {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return keep(t)(core.Wrap(m, core.Spec{DType: core.TypeInt32, Shape: []int64{m.Size / 4}}))
}

func TestExportedMemoryCountsUntilItIsFreed(t *testing.T) {
	d, s := sharing(t)
	page := int64(os.Getpagesize())
	x, m := export(t, s, 100)
	_ = m.Close()
	if m.Size != page || m.Offset != 0 || m.Length != 400 {
		t.Errorf("exported %+v, want 400 bytes of a page of %d", m, page)
	}
	d.wantStats(core.PoolStats{InUse: page, Requested: 400, Peak: page, Allocs: 1})
	_ = x.Close()
	d.wantStats(core.PoolStats{Peak: page, Allocs: 1})

	d.pool().SetPoolLimit(page)
	if _, err := d.Alloc(ctx, page+1, core.AllocOptions{Export: core.HandleMemFD}); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("beyond the limit: %v", err)
	}
}

func TestAbsurdExportsAreRefused(t *testing.T) {
	d, _ := sharing(t)
	for size, want := range map[int64]error{
		-1: core.ErrInvalid, maxSize: core.ErrOutOfMemory, maxSize + 1: core.ErrOutOfMemory, math.MaxInt64: core.ErrOutOfMemory,
	} {
		if m, err := d.Alloc(ctx, size, core.AllocOptions{Export: core.HandleMemFD}); !errors.Is(err, want) {
			m.Free()
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
	}
}

func TestWithoutDescriptorsNothingIsShared(t *testing.T) {
	d, s := sharing(t)
	x, m := export(t, s, 1)
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	fd := coretest.FD(t, m.Handle)
	_ = m.Close() // the next descriptor would have this number or a higher one
	none := limit
	none.Cur = uint64(fd)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	before := d.stats()
	_, alloc := d.Alloc(ctx, 1, core.AllocOptions{Export: core.HandleMemFD})
	_, exported := s.ExportMemory(b, core.HandleMemFD)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for call, err := range map[string]error{"Alloc": alloc, "ExportMemory": exported} {
		var typed *core.Error
		if !errors.Is(err, core.ErrOutOfMemory) || !errors.As(err, &typed) || typed.Code != int64(unix.EMFILE) {
			t.Errorf("%s: %v, want %v with code %d", call, err, core.ErrOutOfMemory, unix.EMFILE)
		}
	}
	before.Allocs++
	before.Failures++
	d.wantStats(before)
}

func TestSharedMemoryIsFreedOnceAndAfterPendingWork(t *testing.T) {
	d, s := sharing(t)
	_, before := system(t)
	m, err := d.Alloc(ctx, 100, core.AllocOptions{Export: core.HandleMemFD})
	if err != nil {
		t.Fatal(err)
	}
	work := stream.NewEvent()
	m.Owner.(backendkit.OrderedOwner).FreeAfter([]core.Event{work})
	if _, n := system(t); n != before+1 {
		t.Errorf("%d mappings while work is unfinished, want %d", n, before+1)
	}
	work.Complete(nil)
	if err := s.Close(); err != nil { // waits for the work
		t.Fatal(err)
	}
	m.Free()
	d.wantStats(core.PoolStats{Peak: int64(os.Getpagesize()), Allocs: 1})
}

func TestSharedMemoryOutlivesItsExporter(t *testing.T) {
	_, s := sharing(t)
	x, m := export(t, s, 3000)
	_ = x.Close()
	memory, err := s.ImportMemory(ctx, m)
	y := wrap(t, memory, err)
	if got := elements[int32](t, y); !slices.Equal(got, sequence(3000)) {
		t.Errorf("got %v", got)
	}
}

func TestImportOfAPart(t *testing.T) {
	_, s := sharing(t)
	page := int64(os.Getpagesize())
	for _, offset := range []int64{0, 4, 256, page - 4, page, page + 4, 2*page + 8} {
		x, m := export(t, s, page)
		m.Offset, m.Length = offset, 8
		memory, err := s.ImportMemory(ctx, m)
		y := wrap(t, memory, err)
		first := int32(offset / 4)
		if got := elements[int32](t, y); !slices.Equal(got, []int32{first, first + 1}) {
			t.Errorf("from byte %d: got %v", offset, got)
		}
		into, err := core.Mutable[int32](y)
		if err != nil {
			t.Fatal(err)
		}
		into[0] = -1
		if got := elements[int32](t, x)[first]; got != -1 {
			t.Errorf("from byte %d: a write to the import does not arrive: %d", offset, got)
		}
	}
}

// Memory whose descriptor or file does not permit writing is read-only, and a write through a pointer
// faults.
func TestReadOnlyImports(t *testing.T) {
	_, s := sharing(t)
	x, m := export(t, s, 100)
	defer m.Close()
	fd := coretest.FD(t, m.Handle)
	for _, c := range []struct {
		name string
		fd   func() (int, error)
	}{
		{"a descriptor for reading", func() (int, error) {
			return unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}},
		{"a file sealed against writing", func() (int, error) {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE); err != nil {
				return -1, err
			}
			return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fd, err := c.fd()
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			again := m
			again.Handle = coretest.HandleOf(t, core.HandleMemFD, fd)
			memory, err := s.ImportMemory(ctx, again)
			if err != nil {
				t.Fatal(err)
			}
			y := keep(t)(core.Wrap(memory, core.Spec{DType: core.TypeInt32, Shape: []int64{100}}))
			if !y.ReadOnly() {
				t.Error("the tensor can be written")
			}
			got, err := core.Values[int32](y)
			if want := elements[int32](t, x); err != nil || !slices.Equal(got, want) {
				t.Errorf("it reads %v, %v; want %v", got, err, want)
			}
			if _, err := core.Mutable[int32](y); !errors.Is(err, core.ErrReadOnly) {
				t.Errorf("Mutable: %v", err)
			}
			if !faults(func() { got[0]++ }) {
				t.Error("a write through the pointer does not fault")
			}
		})
	}
}

// faults reports whether f accesses memory that it may not.
func faults(f func()) (faulted bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { faulted = recover() != nil }()
	f()
	return false
}

// TestRefusedImports proves that the descriptor stays the caller's, and that
// nothing else is left.
func TestRefusedImports(t *testing.T) {
	_, s := sharing(t)
	_, good := export(t, s, 100)
	defer good.Close()
	fd := coretest.FD(t, good.Handle)

	// file makes a file in memory of a page.
	file := func(seals int) *core.Handle {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err == nil {
			err = unix.Ftruncate(fd, good.Size)
		}
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		return coretest.HandleOf(t, core.HandleMemFD, fd)
	}
	disk, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = disk.Close() }()

	for _, c := range []struct {
		rule   string
		change func(*core.ExternalMemory)
		want   error
	}{
		{"another handle type", func(m *core.ExternalMemory) { m.Handle = coretest.HandleOf(t, core.HandleDMABuf, fd) }, core.ErrNotSupported},
		{"no handle", func(m *core.ExternalMemory) { m.Handle = nil }, core.ErrNotSupported},
		{"another device", func(m *core.ExternalMemory) { m.DeviceUUID[0] = 1 }, core.ErrDevice},
		{"another driver", func(m *core.ExternalMemory) { m.DriverUUID[0] = 1 }, core.ErrDevice},
		{"negative offset", func(m *core.ExternalMemory) { m.Offset = -1 }, core.ErrInvalid},
		{"no length", func(m *core.ExternalMemory) { m.Length = 0 }, core.ErrInvalid},
		{"negative length", func(m *core.ExternalMemory) { m.Length = math.MinInt64 }, core.ErrInvalid},
		{"length beyond the size", func(m *core.ExternalMemory) { m.Offset = m.Size - 399 }, core.ErrInvalid},
		{"offset + length overflow", func(m *core.ExternalMemory) { m.Offset, m.Length = math.MaxInt64, math.MaxInt64 }, core.ErrInvalid},
		{"negative size", func(m *core.ExternalMemory) { m.Size = math.MinInt64 }, core.ErrInvalid},
		{"negative size that underflows", func(m *core.ExternalMemory) { m.Size, m.Offset, m.Length = math.MinInt64, 1, 1<<20 }, core.ErrInvalid},
		{"size beyond the file", func(m *core.ExternalMemory) { m.Size++ }, core.ErrInvalid},
		{"closed descriptor", func(m *core.ExternalMemory) { m.Handle = coretest.DeadHandle(t, core.HandleMemFD) }, core.ErrInvalid},
		{"file on disk", func(m *core.ExternalMemory) { m.Handle = coretest.HandleOf(t, core.HandleMemFD, int(disk.Fd())) }, core.ErrInvalid},
		{"file that may shrink", func(m *core.ExternalMemory) { m.Handle = file(unix.F_SEAL_GROW) }, core.ErrInvalid},
	} {
		t.Run(c.rule, func(t *testing.T) {
			m := good
			c.change(&m)
			fds, mappings := system(t)
			memory, err := s.ImportMemory(ctx, m)
			if !errors.Is(err, c.want) {
				memory.Free()
				t.Fatalf("got %v, want %v", err, c.want)
			}
			var typed *core.Error
			if !errors.As(err, &typed) || typed.Backend != "cpu" || typed.Detail == "" {
				t.Errorf("the error tells too little: %#v", err)
			}
			if f, n := system(t); f != fds || n != mappings {
				t.Errorf("%d descriptors and %d mappings, before the call %d and %d", f, n, fds, mappings)
			}
		})
	}

	t.Run("context that has ended", func(t *testing.T) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := s.ImportMemory(ended, good); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("closed device", func(t *testing.T) {
		other, err := New().Open(ctx, core.CPU)
		if err != nil {
			t.Fatal(err)
		}
		_ = other.Close()
		if _, err := other.(*device).ImportMemory(ctx, good); !errors.Is(err, core.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
	if coretest.FD(t, good.Handle) != fd {
		t.Error("the handle has another descriptor")
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		t.Errorf("a failed import has closed the caller's descriptor: %v", err)
	}
}

func TestRefusedExports(t *testing.T) {
	d, s := sharing(t)
	buffer := func(x *core.Tensor) *core.Buffer {
		b, err := x.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	plain := buffer(keep(t)(core.Empty(ctx, s, core.TypeInt8, []int64{10}, core.AllocOptions{})))
	empty := buffer(keep(t)(core.Empty(ctx, s, core.TypeInt8, []int64{0}, core.AllocOptions{Export: core.HandleMemFD})))
	x, m := export(t, s, 1)
	_ = m.Close()
	good := buffer(x)
	y, m := export(t, s, 1)
	_ = m.Close()
	closed := buffer(y)
	_ = y.Close()
	other := open(t).Device.(*device)
	beyond, err := s.ImportPointer(good.Memory().Handle, 1<<20, nil) // never touched: it is not all there
	if err != nil {
		t.Fatal(err)
	}
	alias := buffer(keep(t)(core.Wrap(beyond, core.Spec{DType: core.TypeInt8, Shape: []int64{1}})))

	for _, c := range []struct {
		rule string
		d    *device
		b    *core.Buffer
		as   core.HandleType
		want error
	}{
		{"another handle type", s, good, core.HandleOpaqueFD, core.ErrNotSupported},
		{"no buffer", s, nil, core.HandleMemFD, core.ErrInvalid},
		{"memory that was not asked for it", s, plain, core.HandleMemFD, core.ErrInvalid},
		{"no bytes", s, empty, core.HandleMemFD, core.ErrInvalid},
		{"more than was allocated, at the same address", s, alias, core.HandleMemFD, core.ErrInvalid},
		{"closed", s, closed, core.HandleMemFD, core.ErrClosed},
		{"memory of another device", other, good, core.HandleMemFD, core.ErrDevice},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if _, err := c.d.ExportMemory(c.b, c.as); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if s := d.stats(); s.Failures != 0 {
		t.Errorf("an export is no allocation: %+v", s)
	}
}

func TestTheSizeOfSharedMemoryIsFixed(t *testing.T) {
	_, s := sharing(t)
	_, m := export(t, s, 100)
	defer m.Close()
	fd := coretest.FD(t, m.Handle)
	for _, size := range []int64{0, m.Size - 1, m.Size + 1} {
		if err := unix.Ftruncate(fd, size); !errors.Is(err, unix.EPERM) {
			t.Errorf("a peer may set the size to %d: %v", size, err)
		}
	}
}

// childVariable tells the test binary that it is the other process of
// TestTwoProcessesShareMemory; its descriptor 3 is the memory.
const childVariable = "DLX_TEST_SHARED_MEMORY"

func TestTwoProcessesShareMemory(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		shareAsChild(t)
		return
	}
	_, s := sharing(t)
	x, m := export(t, s, 5000)
	data, fds, err := m.MarshalWithFDs()
	if err != nil {
		t.Fatal(err)
	}
	number, err := m.Handle.Take()
	if err != nil || len(fds) != 1 || int(number) != fds[0] {
		t.Fatalf("descriptor %d, to be sent: %v, error %v", number, fds, err)
	}
	file := os.NewFile(number, "shared")
	defer func() { _ = file.Close() }()
	child := exec.Command(os.Args[0], "-test.run=^TestTwoProcessesShareMemory$", "-test.v")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%x", childVariable, data))
	child.ExtraFiles = []*os.File{file}
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("the other process: %v\n%s", err, out)
	}
	want := sequence(5000)
	for i := range want {
		want[i] = -want[i]
	}
	if got := elements[int32](t, x); !slices.Equal(got, want) {
		t.Errorf("what the other process wrote: %v", got)
	}
}

// shareAsChild checks what the parent wrote, and negates it.
func shareAsChild(t *testing.T) {
	data, err := hex.DecodeString(os.Getenv(childVariable))
	if err != nil {
		t.Fatal(err)
	}
	m, err := core.UnmarshalExternalMemory(data, []int{3})
	if err != nil {
		t.Fatal(err)
	}
	memory, err := open(t).Device.(*device).ImportMemory(ctx, m)
	x := wrap(t, memory, err)
	if got := elements[int32](t, x); !slices.Equal(got, sequence(5000)) {
		t.Fatalf("what the parent wrote: %v", got)
	}
	all, err := core.Mutable[int32](x)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i] = -all[i]
	}
}
