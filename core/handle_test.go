package core_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

var allHandleTypes = []core.HandleType{
	core.HandleOpaqueFD, core.HandleDMABuf, core.HandleMemFD, core.HandleIPC, core.HandleOpaqueWin32, core.HandleMachPort, core.HandleBinaryFD,
}

func TestHandleTypes(t *testing.T) {
	// The numbers go over the wire.
	for h, want := range map[core.HandleType]struct {
		number core.HandleType
		name   string
		fd     bool
	}{
		0: {0, "none", false}, core.HandleOpaqueFD: {1, "opaque_fd", true}, core.HandleDMABuf: {2, "dma_buf", true},
		core.HandleMemFD: {3, "mem_fd", true}, core.HandleIPC: {4, "ipc", false},
		core.HandleOpaqueWin32: {5, "opaque_win32", false}, core.HandleMachPort: {6, "mach_port", false}, core.HandleBinaryFD: {7, "binary_fd", true},
		99: {99, "unknown", false}, 1 << 31: {1 << 31, "unknown", false},
	} {
		if h != want.number || h.String() != want.name || h.IsFD() != want.fd {
			t.Errorf("handle type %d is %v, a descriptor: %v", uint32(h), h, h.IsFD())
		}
		var back core.HandleType
		if err := back.UnmarshalText([]byte(want.name)); want.name != "unknown" && (err != nil || back != h) {
			t.Errorf("%q is read as %v, error %v", want.name, back, err)
		} else if want.name == "unknown" && !errors.Is(err, core.ErrInvalid) {
			t.Errorf("an unknown name: %v, want ErrInvalid", err)
		}
	}
}

func TestVendors(t *testing.T) {
	for v, want := range map[core.Vendor]struct {
		number core.Vendor
		name   string
	}{
		0: {0, "none"}, core.VendorNVIDIA: {1, "nvidia"}, core.VendorAMD: {2, "amd"}, core.VendorIntel: {3, "intel"}, 200: {200, "unknown"},
	} {
		text, err := v.MarshalText()
		if v != want.number || v.String() != want.name || string(text) != want.name || err != nil {
			t.Errorf("vendor %d is %v, %q, error %v", uint8(v), v, text, err)
		}
		var back core.Vendor
		if err := back.UnmarshalText(text); want.name != "unknown" && (err != nil || back != v) {
			t.Errorf("%q is read as %v, error %v", text, back, err)
		} else if want.name == "unknown" && !errors.Is(err, core.ErrInvalid) {
			t.Errorf("an unknown name: %v, want ErrInvalid", err)
		}
	}
}

// needDescriptors skips a test where dlx makes no handles of descriptors.
func needDescriptors(t testing.TB) {
	if runtime.GOOS == "windows" {
		t.Skip("dlx knows no descriptors on windows")
	}
}

// pipeHandle returns a handle that owns the read end of a pipe, which the test closes,
// and the other end.
func pipeHandle(t testing.TB, k core.HandleType) (*core.Handle, *os.File) {
	t.Helper()
	needDescriptors(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	t.Cleanup(func() { _ = w.Close() })
	return coretest.HandleOf(t, k, int(r.Fd())), w
}

// closed reports whether the read end of a pipe was closed, however many descriptors it had.
func closed(w *os.File) bool {
	_, err := w.Write([]byte{1})
	return err != nil
}

func ipcHandle(t testing.TB, payload ...byte) *core.Handle {
	t.Helper()
	h, err := backendkit.NewIPCHandle(core.VendorNVIDIA, payload)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func liveHandles() int64 { return core.Live()["core.Handle"] }

func TestAHandleOwnsItsDescriptor(t *testing.T) {
	before := liveHandles()
	h, w := pipeHandle(t, core.HandleOpaqueFD)
	if n := liveHandles() - before; n != 1 {
		t.Errorf("%d handles are counted, want 1", n)
	}
	second, err := h.Duplicate()
	if err != nil {
		t.Fatal(err)
	}
	one, two := coretest.FD(t, h), coretest.FD(t, second)
	if one == two || second.Type() != core.HandleOpaqueFD || h.String() != fmt.Sprintf("opaque_fd %d", one) {
		t.Errorf("descriptors %d and %d, %v", one, two, h)
	}
	if err := h.Close(); err != nil || closed(w) {
		t.Errorf("after Close of one of two: %v, the pipe is closed: %v", err, closed(w))
	}
	for range 2 {
		if err := h.Close(); err != nil {
			t.Errorf("Close of an empty handle: %v", err)
		}
	}
	wantEmpty(t, h, core.HandleOpaqueFD, "opaque_fd, empty")
	if err := second.Close(); err != nil || !closed(w) {
		t.Errorf("after Close of both: %v, the pipe is closed: %v", err, closed(w))
	}
	if n := liveHandles() - before; n != 0 {
		t.Errorf("%d handles are counted at the end", n)
	}
}

func wantEmpty(t *testing.T, h *core.Handle, k core.HandleType, text string) {
	t.Helper()
	_, err := h.Duplicate()
	_, _, err2 := core.ExternalMemory{Handle: h}.MarshalWithFDs()
	errs := []error{err, err2}
	if k == core.HandleIPC {
		_, err := h.Payload()
		errs = append(errs, err)
	} else {
		_, err := h.Number()
		_, err2 := h.Take()
		errs = append(errs, err, err2)
	}
	for i, err := range errs {
		if !errors.Is(err, core.ErrClosed) {
			t.Errorf("call %d of an empty handle: %v, want ErrClosed", i, err)
		}
	}
	if h.Type() != k || h.String() != text {
		t.Errorf("an empty handle of type %v is %v", h.Type(), h)
	}
}

func TestTakeEmptiesAHandle(t *testing.T) {
	h, w := pipeHandle(t, core.HandleMemFD)
	number, err := h.Take()
	if err != nil {
		t.Fatal(err)
	}
	wantEmpty(t, h, core.HandleMemFD, "mem_fd, empty")
	if err := h.Close(); err != nil || closed(w) {
		t.Errorf("Close after Take: %v, the pipe is closed: %v", err, closed(w))
	}
	if err := os.NewFile(number, "taken").Close(); err != nil || !closed(w) {
		t.Errorf("closing what was taken: %v, the pipe is closed: %v", err, closed(w))
	}
}

func TestOnlyOneTakesAHandle(t *testing.T) {
	h, w := pipeHandle(t, core.HandleDMABuf)
	var group sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	for i := range 16 {
		group.Go(func() {
			if i%2 == 0 {
				d, err := h.Duplicate()
				if err == nil {
					err = d.Close()
				}
				if err != nil && !errors.Is(err, core.ErrClosed) {
					t.Error(err)
				}
				return
			}
			number, err := h.Take()
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			taken++
			_ = os.NewFile(number, "taken").Close()
		})
	}
	group.Wait()
	if taken != 1 || !closed(w) {
		t.Errorf("%d have taken the descriptor, the pipe is closed: %v", taken, closed(w))
	}
}

func TestAnIPCHandleOwnsItsBytes(t *testing.T) {
	before := liveHandles()
	bytes := []byte{1, 2, 3}
	h := ipcHandle(t, bytes...)
	second, err := h.Duplicate()
	if err != nil {
		t.Fatal(err)
	}
	bytes[0] = 9
	payload, err := h.Payload()
	if err != nil || string(payload) != "\x01\x02\x03" || h.Vendor() != core.VendorNVIDIA || h.String() != "ipc of nvidia" {
		t.Errorf("payload %v of %v, error %v", payload, h, err)
	}
	payload[1] = 9
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	wantEmpty(t, h, core.HandleIPC, "ipc, empty")
	if payload, err := second.Payload(); err != nil || string(payload) != "\x01\x02\x03" {
		t.Errorf("payload of the duplicate: %v, error %v", payload, err)
	}
	if _, err := second.Number(); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Number of bytes: %v", err)
	}
	if n := liveHandles() - before; n != 0 {
		t.Errorf("%d handles are counted, that hold nothing of the system", n)
	}
}

func TestHandlesThatCannotBe(t *testing.T) {
	needDescriptors(t)
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, c := range []struct {
		name   string
		t      core.HandleType
		number uintptr
		want   error
	}{
		{"no type", 0, f.Fd(), core.ErrInvalid},
		{"an unknown type", 99, f.Fd(), core.ErrInvalid},
		{"a type of bytes", core.HandleIPC, f.Fd(), core.ErrInvalid},
		{"minus one", core.HandleMemFD, ^uintptr(0), core.ErrInvalid},
		{"a number that is cut off", core.HandleMemFD, uintptr(uint64(f.Fd()) | 1<<32), core.ErrInvalid},
		{"a closed descriptor", core.HandleMemFD, 1 << 30, core.ErrInvalid},
		{"a handle of Windows", core.HandleOpaqueWin32, f.Fd(), core.ErrNotSupported},
		{"a Mach port", core.HandleMachPort, f.Fd(), core.ErrNotSupported},
	} {
		if h, err := backendkit.NewHandle(c.t, c.number); h != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, error %v; want %v", c.name, h, err, c.want)
		}
	}
	if _, err := f.Stat(); err != nil {
		t.Errorf("the descriptor after failures: %v", err)
	}
	for name, payload := range map[string][]byte{"no bytes": nil, "too many bytes": make([]byte, 257)} {
		if h, err := backendkit.NewIPCHandle(core.VendorAMD, payload); h != nil || !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v, error %v", name, h, err)
		}
	}
	for _, v := range []core.Vendor{0, 4, 255} {
		if h, err := backendkit.NewIPCHandle(v, []byte{1}); h != nil || !errors.Is(err, core.ErrInvalid) {
			t.Errorf("vendor %d: %v, error %v", v, h, err)
		}
	}
}

func TestADescriptorThatAnotherHasClosed(t *testing.T) {
	needDescriptors(t)
	h := coretest.DeadHandle(t, core.HandleMemFD)
	if d, err := h.Duplicate(); d != nil || !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Duplicate: %v, %v", d, err)
	}
	if err := h.Close(); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Close: %v", err)
	}
	wantEmpty(t, h, core.HandleMemFD, "mem_fd, empty")
}

func TestHandlesOfNothing(t *testing.T) {
	for name, h := range map[string]*core.Handle{"nil": nil, "zero": {}} {
		_, number := h.Number()
		_, take := h.Take()
		_, payload := h.Payload()
		_, duplicate := h.Duplicate()
		_, _, marshal := core.ExternalSemaphore{Handle: h}.MarshalWithFDs()
		for i, err := range []error{number, take, payload, duplicate, marshal} {
			if !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%s: call %d: %v, want ErrInvalid", name, i, err)
			}
		}
		if err := h.Close(); err != nil || h.Type() != 0 || h.Vendor() != 0 || h.String() != "none" {
			t.Errorf("%s: %v, %v of %v, Close: %v", name, h, h.Type(), h.Vendor(), err)
		}
	}
	if err := errors.Join(core.ExternalMemory{}.Close(), core.ExternalSemaphore{}.Close(), core.ExternalEvent{}.Close()); err != nil {
		t.Error(err)
	}
}

func memoryOf(h *core.Handle) core.ExternalMemory {
	return core.ExternalMemory{
		Handle: h, Size: 8192, Offset: 4096, Length: 100, Dedicated: true, MemoryType: 7,
		DeviceUUID: core.UUID{1, 15: 2}, DriverUUID: core.UUID{3, 15: 4},
	}
}

// received returns descriptors as the other end of a socket would have them, which the
// test closes if nobody does.
func received(t testing.TB, k core.HandleType, fds []int) []int {
	t.Helper()
	var got []int
	for _, fd := range fds {
		number, err := coretest.HandleOf(t, k, fd).Take()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, int(number))
	}
	return got
}

func TestExternalMemoryIsSent(t *testing.T) {
	descriptor, w := pipeHandle(t, core.HandleDMABuf)
	for _, h := range []*core.Handle{descriptor, ipcHandle(t, bytes.Repeat([]byte{5}, 256)...)} {
		sent := memoryOf(h)
		data, fds, err := sent.MarshalWithFDs()
		if err != nil {
			t.Fatal(err)
		}
		fds = received(t, h.Type(), fds)
		got, err := core.UnmarshalExternalMemory(data, fds)
		if err != nil {
			t.Fatal(err)
		}
		if h.Type() == core.HandleIPC {
			want, _ := h.Payload()
			if have, err := got.Handle.Payload(); string(have) != string(want) || err != nil || got.Handle.Vendor() != core.VendorNVIDIA {
				t.Errorf("%v arrived as %v", want, have)
			}
		} else if have := coretest.FD(t, got.Handle); have != fds[0] {
			t.Errorf("descriptor %d became %d", fds[0], have)
		}
		if got.Handle.Type() != h.Type() {
			t.Errorf("%v became %v", h, got.Handle)
		}
		same := got
		same.Handle = h
		if same != sent {
			t.Errorf("%+v arrived as %+v", sent, got)
		}
		if err := errors.Join(got.Close(), sent.Close()); err != nil {
			t.Error(err)
		}
	}
	if !closed(w) {
		t.Error("a descriptor is still open")
	}
}

func TestExternalSemaphoresAndEventsAreSent(t *testing.T) {
	h, w := pipeHandle(t, core.HandleOpaqueFD)
	semaphore := core.ExternalSemaphore{Handle: h, DeviceUUID: core.UUID{1}, DriverUUID: core.UUID{2}}
	data, fds, err := semaphore.MarshalWithFDs()
	if err != nil {
		t.Fatal(err)
	}
	fds = received(t, h.Type(), fds)
	if _, err := core.UnmarshalExternalEvent(data, fds); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a semaphore is read as an event: %v", err)
	}
	gotSemaphore, err := core.UnmarshalExternalSemaphore(data, fds)
	if err != nil || gotSemaphore.DeviceUUID != semaphore.DeviceUUID || gotSemaphore.DriverUUID != semaphore.DriverUUID {
		t.Errorf("%+v arrived as %+v, error %v", semaphore, gotSemaphore, err)
	}
	event := core.ExternalEvent{Handle: ipcHandle(t, 7), DeviceUUID: core.UUID{1}, DriverUUID: core.UUID{2}}
	data, fds, err = event.MarshalWithFDs()
	if err != nil || len(fds) != 0 {
		t.Fatal(fds, err)
	}
	gotEvent, err := core.UnmarshalExternalEvent(data, nil)
	if err != nil || gotEvent.DeviceUUID != event.DeviceUUID || gotEvent.DriverUUID != event.DriverUUID {
		t.Errorf("%+v arrived as %+v, error %v", event, gotEvent, err)
	}
	if err := errors.Join(gotSemaphore.Close(), semaphore.Close(), gotEvent.Close()); err != nil || !closed(w) {
		t.Errorf("Close: %v, the pipe is closed: %v", err, closed(w))
	}
}

func TestDuplicatesOfWhatIsExternal(t *testing.T) {
	h, w := pipeHandle(t, core.HandleOpaqueFD)
	memory, err := memoryOf(h).Duplicate()
	semaphore, err2 := core.ExternalSemaphore{Handle: h, DeviceUUID: core.UUID{1}}.Duplicate()
	event, err3 := core.ExternalEvent{Handle: h, DeviceUUID: core.UUID{1}}.Duplicate()
	if err := errors.Join(err, err2, err3, h.Close()); err != nil || closed(w) {
		t.Fatalf("%v, the pipe is closed: %v", err, closed(w))
	}
	if memory.Size != 8192 || semaphore.DeviceUUID[0] != 1 || event.DeviceUUID[0] != 1 {
		t.Errorf("%+v, %+v, %+v", memory, semaphore, event)
	}
	if err := errors.Join(memory.Close(), semaphore.Close(), event.Close()); err != nil || !closed(w) {
		t.Errorf("%v, the pipe is closed: %v", err, closed(w))
	}
	if _, err := memory.Duplicate(); !errors.Is(err, core.ErrClosed) {
		t.Errorf("Duplicate of what was closed: %v", err)
	}
}

func TestMessagesThatCannotBe(t *testing.T) {
	h, w := pipeHandle(t, core.HandleMemFD)
	good, fds, err := memoryOf(h).MarshalWithFDs()
	if err != nil {
		t.Fatal(err)
	}
	bad := func(change func(m *core.ExternalMemory)) {
		m := memoryOf(h)
		change(&m)
		if _, _, err := m.MarshalWithFDs(); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%+v is sent: %v", m, err)
		}
	}
	bad(func(m *core.ExternalMemory) { m.Size = -1 })
	bad(func(m *core.ExternalMemory) { m.Length = m.Size })

	set := func(at int, b ...byte) func([]byte) []byte {
		return func(data []byte) []byte { copy(data[at:], b); return data }
	}
	number := func(at int, n int64) func([]byte) []byte {
		return func(data []byte) []byte { binary.LittleEndian.PutUint64(data[at:], uint64(n)); return data }
	}
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		fds    []int
		want   error
	}{
		{"nothing", func([]byte) []byte { return nil }, fds, core.ErrInvalid},
		{"the magic alone", func(data []byte) []byte { return data[:4] }, fds, core.ErrInvalid},
		{"magic and version", func(data []byte) []byte { return data[:5] }, fds, core.ErrInvalid},
		{"another magic", set(0, 'd'), fds, core.ErrInvalid},
		{"a later version", set(4, 2), fds, core.ErrVersion},
		{"a semaphore", set(5, 2), fds, core.ErrInvalid},
		{"a byte less", func(data []byte) []byte { return data[:len(data)-1] }, fds, core.ErrInvalid},
		{"a byte more", func(data []byte) []byte { return append(data, 0) }, fds, core.ErrInvalid},
		{"no type", set(6, 0), fds, core.ErrInvalid},
		{"an unknown type", set(6, 200), fds, core.ErrInvalid},
		{"a handle of Windows", set(6, 5), fds, core.ErrNotSupported},
		{"bytes with a descriptor", set(6, 4), fds, core.ErrInvalid},
		{"a descriptor with a vendor", set(7, 1), fds, core.ErrInvalid},
		{"a payload that is not there", set(8, 1), fds, core.ErrInvalid},
		{"a descriptor with bytes", func(data []byte) []byte { data[8] = 1; return append(data, 0) }, fds, core.ErrInvalid},
		{"unknown flags", set(10, 2), fds, core.ErrInvalid},
		{"no descriptor", func(data []byte) []byte { return data }, nil, core.ErrInvalid},
		{"no descriptor, as it says", set(11, 0), nil, core.ErrInvalid},
		{"two descriptors", set(11, 2), []int{fds[0], fds[0]}, core.ErrInvalid},
		{"descriptor -1", func(data []byte) []byte { return data }, []int{-1}, core.ErrInvalid},
		{"a closed descriptor", func(data []byte) []byte { return data }, []int{1 << 30}, core.ErrInvalid},
		{"a negative size", number(44, -1), fds, core.ErrInvalid},
		{"a negative offset", number(52, -1), fds, core.ErrInvalid},
		{"a negative length", number(60, -1), fds, core.ErrInvalid},
		{"a range that overflows", number(52, 1<<62), fds, core.ErrInvalid},
		{"a range beyond the end", number(60, 4097), fds, core.ErrInvalid},
	} {
		before := liveHandles()
		m, err := core.UnmarshalExternalMemory(c.change(bytes.Clone(good)), c.fds)
		var typed *core.Error
		if !errors.Is(err, c.want) || !errors.As(err, &typed) || m != (core.ExternalMemory{}) {
			t.Errorf("%s: %+v, error %v; want %v", c.name, m, err, c.want)
		}
		if closed(w) || liveHandles() != before {
			t.Errorf("%s: the descriptor is not the caller's any more", c.name)
		}
	}
	for name, change := range map[string]func([]byte) []byte{
		"no vendor": set(7, 0), "an unknown vendor": set(7, 99), "no bytes": func(data []byte) []byte { data[8] = 0; return data[:44] },
		"too many bytes": func(data []byte) []byte { data[8], data[9] = 1, 1; return append(data, make([]byte, 256)...) },
	} {
		data, _, err := core.ExternalEvent{Handle: ipcHandle(t, 1)}.MarshalWithFDs()
		if err != nil {
			t.Fatal(err)
		}
		if x, err := core.UnmarshalExternalEvent(change(data), nil); !errors.Is(err, core.ErrInvalid) || x.Handle != nil {
			t.Errorf("%s: %+v, error %v", name, x, err)
		}
	}
}

// FuzzUnmarshal reads messages that anybody may have sent: nothing panics, descriptors
// have one owner, and what is read is written as it was.
func FuzzUnmarshal(f *testing.F) {
	needDescriptors(f)
	null, err := os.Open(os.DevNull)
	if err != nil {
		f.Fatal(err)
	}
	defer null.Close()
	for _, k := range allHandleTypes {
		h, err := backendkit.NewHandle(k, null.Fd())
		if err != nil {
			h = ipcHandle(f, 1, 2, 3)
		}
		data, fds, err := memoryOf(h).MarshalWithFDs()
		semaphore, _, err2 := core.ExternalSemaphore{Handle: h}.MarshalWithFDs()
		event, _, err3 := core.ExternalEvent{Handle: h}.MarshalWithFDs()
		if err := errors.Join(err, err2, err3); err != nil {
			f.Fatal(err)
		}
		_, _ = h.Take()
		for _, data := range [][]byte{data, semaphore, event, data[:20]} {
			f.Add(data, len(fds))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		before := liveHandles()
		fds := make([]int, min(max(n, 0), 3))
		for i := range fds {
			fds[i] = received(t, core.HandleMemFD, []int{int(null.Fd())})[0]
		}
		var written [][]byte
		keep := func(m interface {
			MarshalWithFDs() ([]byte, []int, error)
			Close() error
		}, err error) {
			if err != nil {
				var typed *core.Error
				if !errors.As(err, &typed) {
					t.Errorf("error %v", err)
				}
				return
			}
			again, given, err := m.MarshalWithFDs()
			if err != nil || len(given) != len(fds) {
				t.Errorf("what was read is not written: %v, %v", given, err)
			}
			written = append(written, again)
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		memory, err := core.UnmarshalExternalMemory(data, fds)
		keep(memory, err)
		if len(written) == 0 {
			semaphore, err := core.UnmarshalExternalSemaphore(data, fds)
			keep(semaphore, err)
		}
		if len(written) == 0 {
			event, err := core.UnmarshalExternalEvent(data, fds)
			keep(event, err)
		}
		if len(written) == 0 { // the descriptors are still ours
			for _, fd := range fds {
				if err := os.NewFile(uintptr(fd), "received").Close(); err != nil {
					t.Errorf("descriptor %d: %v", fd, err)
				}
			}
		} else if !bytes.Equal(written[0], data) {
			t.Errorf("%x is written as %x", data, written[0])
		}
		if n := liveHandles() - before; n != 0 {
			t.Errorf("%d handles are open", n)
		}
	})
}
