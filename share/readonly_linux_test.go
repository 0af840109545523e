package share

import (
	"errors"
	"fmt"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// frozen returns a read-only tensor on the memory of x.
func frozen(t testing.TB, x *core.Tensor) *core.Tensor {
	t.Helper()
	y, err := core.NewTensor(buffer(t, x), core.Spec{DType: x.DType(), Shape: x.Layout().Shape(), Flags: core.FlagReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { y.Close() })
	return y
}

// faults reports whether f accesses memory that it may not.
func faults(f func()) (faulted bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { faulted = recover() != nil }()
	f()
	return false
}

// A receiver cannot write what is read-only, not even through a pointer. It still sees what the sender
// writes.
func TestReadOnlyMemory(t *testing.T) {
	d, e := host(t), host(t)
	for _, option := range []bool{false, true} {
		a, b := connected(t, Options{Devices: []core.Device{d}, ReadOnly: option}, of(e))
		x := shareable(t, d, 10, memfd)
		if r := send(t, a, frozen(t, x)); r.Mechanism != exchange.Map || r.BytesCopied != 0 {
			t.Errorf("option %t: sent: %v", option, r)
		}
		y, _ := receive(t, b, e)
		if _, err := core.Mutable[int32](y); !errors.Is(err, core.ErrReadOnly) || !y.ReadOnly() {
			t.Errorf("option %t: Mutable: %v", option, err)
		}
		got, err := core.Values[int32](y)
		if err != nil {
			t.Fatal(err)
		}
		if !faults(func() { got[3] = 1 }) {
			t.Errorf("option %t: a write through the pointer does not fault", option)
		}
		into, err := core.MutableWithoutWaiting[int32](x)
		if err != nil {
			t.Fatal(err)
		}
		if into[3] = 77; got[3] != 77 {
			t.Errorf("option %t: a write of the sender does not arrive: %d", option, got[3])
		}
	}
}

// Memory that was passed for reading is passed again for writing, and later tensors use the latter.
func TestMemoryForReadingAndForWriting(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	x := shareable(t, d, 10, memfd)
	view := frozen(t, x)
	for i, v := range []*core.Tensor{view, view, x, view, x} {
		send(t, a, v)
		y, _ := receive(t, b, e)
		if _, err := core.Mutable[int32](y); (err == nil) != (v == x) {
			t.Errorf("tensor %d: Mutable: %v", i, err)
		}
		y.Close()
	}
	released(t, a)
	if n := a.Stats().MemoriesSent; n != 2 {
		t.Errorf("the memory was passed %d times", n)
	}
	view.Close()
	x.Close()
	until(t, "the peer forgets both", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.opened) == 0 })
}

// received reads a message as another implementation would, with its descriptor.
func (x *intruder) received() (h header, payload []byte, fd int) {
	x.t.Helper()
	s, err := newSockets(x.socket)
	if err != nil {
		x.t.Fatal(err)
	}
	b := make([]byte, maxMessage)
	n, fds, err := s.read(b)
	if err == nil {
		h, payload, err = readHeader(b[:n], len(fds))
	}
	if err != nil {
		x.t.Fatal(err)
	}
	if fd = -1; len(fds) > 0 {
		fd = fds[0]
		x.t.Cleanup(func() { _ = unix.Close(fd) })
	}
	return h, payload, fd
}

// A receiver of any language has a descriptor by which it cannot write. With Options.ReadOnly it cannot
// get a better one either. The size of the memory is fixed.
func TestTheDescriptorOfReadOnlyMemory(t *testing.T) {
	for _, option := range []bool{false, true} {
		d := host(t)
		mine, theirs := pair(t)
		a := made(t, mine, Options{Devices: []core.Device{d}, ReadOnly: option})
		x := &intruder{t: t, socket: theirs}
		x.write(x.message(kindHello, 0, appendHello(nil, hello{limits: Limits{Tensors: 4, Memories: 4, Bytes: 1 << 30}, devices: []PeerDevice{describe(d)}})))
		x.received()
		send(t, a, frozen(t, shareable(t, d, 10, memfd)))
		h, _, fd := x.received()
		if h.kind != kindMemory || fd < 0 {
			t.Fatalf("%+v arrives, with the descriptor %d", h, fd)
		}
		if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EACCES) {
			t.Errorf("option %t: mmap for writing: %v", option, err)
		}
		if _, err := unix.Write(fd, []byte{1}); !errors.Is(err, unix.EBADF) {
			t.Errorf("option %t: write: %v", option, err)
		}
		again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR|unix.O_CLOEXEC, 0) // as the same user
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(again)
		for _, size := range []int64{0, 1 << 20} {
			if err := unix.Ftruncate(again, size); !errors.Is(err, unix.EPERM) {
				t.Errorf("option %t: ftruncate to %d: %v", option, size, err)
			}
		}
		if !option {
			continue
		}
		if _, err := unix.Mmap(again, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EPERM) {
			t.Errorf("mmap for writing, opened again: %v", err)
		}
		if _, err := unix.Write(again, []byte{1}); !errors.Is(err, unix.EPERM) {
			t.Errorf("write, opened again: %v", err)
		}
	}
}

// Memory that is sealed against writing is copied for a receiver that may write.
func TestSealedMemoryIsCopiedForAWriter(t *testing.T) {
	d, e := host(t), host(t)
	reader, _ := connected(t, Options{Devices: []core.Device{d}, ReadOnly: true}, of(e))
	writer, b := connected(t, of(d), of(e))
	x := shareable(t, d, 10, memfd)
	send(t, reader, x)
	r := send(t, writer, x)
	if r.BytesCopied != 40 || len(r.Refused()) == 0 {
		t.Errorf("sent: %v", r)
	}
	y, _ := receive(t, b, e)
	if _, err := core.Mutable[int32](y); err != nil {
		t.Error(err)
	}
	y.Close()
}
