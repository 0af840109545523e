package share

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// intruder speaks the format by hand.
type intruder struct {
	t        testing.TB
	socket   *net.UnixConn
	sequence uint64
	uuid     core.UUID // of the device whose semaphores it passes
	// hostWaits says that no device can wait for what it passes.
	hostWaits bool
	// missing says that it tells that it does not signal.
	missing bool
}

// message makes a message with the next number.
func (x *intruder) message(k kind, fds int, payload []byte) []byte {
	b := append(appendHeader(nil, header{kind: k, fds: fds}), payload...)
	finish(b, x.sequence)
	x.sequence++
	return b
}

// write sends bytes and descriptors as they are.
func (x *intruder) write(b []byte, fds ...int) {
	x.t.Helper()
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if _, _, err := x.socket.WriteMsgUnix(b, rights, nil); err != nil && !isBroken(err) {
		x.t.Fatal(err)
	}
}

func (x *intruder) hello() {
	x.write(x.message(kindHello, 0, appendHello(nil, hello{limits: Limits{Tensors: 4, Memories: 4, Bytes: 1 << 30}})))
}

// memory makes a memory file and returns the message of package core about it.
func (x *intruder) memory(size, claimed int64, t core.HandleType, seals int) (data []byte, fd int) {
	x.t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		err = unix.Ftruncate(fd, size)
	}
	if err == nil && seals != 0 {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = unix.Close(fd) })
	return x.claim(fd, claimed, t), fd
}

// claim makes the message of package core about a descriptor.
func (x *intruder) claim(fd int, size int64, t core.HandleType) []byte {
	x.t.Helper()
	h := coretest.HandleOf(x.t, t, fd)
	defer h.Close()
	data, _, err := core.ExternalMemory{Handle: h, Size: size, Length: size}.MarshalWithFDs()
	if err != nil {
		x.t.Fatal(err)
	}
	return data
}

// pass passes a sealed memory file of a page as memory 1.
func (x *intruder) pass() {
	data, fd := x.memory(4096, 4096, core.HandleMemFD, unix.F_SEAL_SHRINK)
	x.write(x.message(kindMemory, 1, appendObject(nil, 1, objectMemory, data)), fd)
}

func (x *intruder) tensor(change func(*tensorMessage)) {
	m := tensorMessage{id: 1, memory: 1, spec: core.Spec{DType: core.TypeInt32, Shape: []int64{8}, Strides: []int64{1}}}
	change(&m)
	x.write(x.message(kindTensor, 0, appendTensor(nil, &m)))
}

// semaphore makes the message of package core about a descriptor of a semaphore.
func (x *intruder) semaphore(fd int) []byte {
	x.t.Helper()
	h := coretest.HandleOf(x.t, core.HandleOpaqueFD, fd)
	defer h.Close()
	data, _, err := core.ExternalSemaphore{Handle: h, DeviceUUID: x.uuid}.MarshalWithFDs()
	if err != nil {
		x.t.Fatal(err)
	}
	return data
}

func TestHostilePeers(t *testing.T) {
	const sealed = unix.F_SEAL_SHRINK
	for _, c := range []struct {
		name string
		do   func(x *intruder)
		want error
	}{
		{"garbage first", func(x *intruder) { x.write([]byte("GET / HTTP/1.1\r\n\r\n")) }, core.ErrInvalid},
		{"garbage", func(x *intruder) { x.hello(); x.write(make([]byte, 100)) }, core.ErrInvalid},
		{"an empty message", func(x *intruder) { x.hello(); x.write(nil) }, core.ErrClosed},
		{"a message that is too long", func(x *intruder) { x.hello(); x.write(x.message(kindTensor, 0, make([]byte, maxMessage))) }, core.ErrInvalid},
		{"no hello", func(x *intruder) { x.pass() }, core.ErrInvalid},
		{"two hellos", func(x *intruder) { x.hello(); x.hello() }, core.ErrInvalid},
		{"another version", func(x *intruder) {
			b := x.message(kindHello, 0, appendHello(nil, hello{}))
			b[4] = 77
			x.write(b)
		}, core.ErrVersion},
		{"a wrong number", func(x *intruder) { x.hello(); x.sequence++; x.pass() }, core.ErrInvalid},
		{"a wrong length", func(x *intruder) {
			x.hello()
			b := x.message(kindForget, 0, appendForget(nil, 1))
			x.write(append(b, 0))
		}, core.ErrInvalid},
		{"an unknown kind", func(x *intruder) { x.hello(); x.write(x.message(900, 0, nil)) }, core.ErrInvalid},
		{"a descriptor without a memory", func(x *intruder) { x.hello(); x.write(x.message(kindForget, 1, appendForget(nil, 1)), 0) }, core.ErrInvalid},
		{"a descriptor of which the header knows nothing", func(x *intruder) {
			x.hello()
			data, fd := x.memory(4096, 4096, core.HandleMemFD, sealed)
			x.write(x.message(kindMemory, 0, appendObject(nil, 1, objectMemory, data)), fd)
		}, core.ErrInvalid},
		{"many descriptors", func(x *intruder) {
			x.hello()
			data, fd := x.memory(4096, 4096, core.HandleMemFD, sealed)
			x.write(x.message(kindMemory, 60, appendObject(nil, 1, objectMemory, data)), slices.Repeat([]int{fd}, 60)...)
		}, core.ErrInvalid},
		{"a memory of huge pages, which can be missing", func(x *intruder) {
			x.hello()
			fd, _ := x.words(2<<20, sealed, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
			x.write(x.message(kindMemory, 1, appendObject(nil, 1, objectMemory, x.claim(fd, 2<<20, core.HandleMemFD))), fd)
		}, core.ErrInvalid},
		{"two descriptors", func(x *intruder) {
			x.hello()
			data, fd := x.memory(4096, 4096, core.HandleMemFD, sealed)
			x.write(x.message(kindMemory, 2, appendObject(nil, 1, objectMemory, data)), fd, fd)
		}, core.ErrInvalid},
		{"a memory without a descriptor", func(x *intruder) {
			x.hello()
			data, _ := x.memory(4096, 4096, core.HandleMemFD, sealed)
			x.write(x.message(kindMemory, 0, appendObject(nil, 1, objectMemory, data)))
		}, core.ErrInvalid},
		{"a memfd that can shrink", func(x *intruder) {
			x.hello()
			data, fd := x.memory(4096, 4096, core.HandleMemFD, 0)
			x.write(x.message(kindMemory, 1, appendObject(nil, 1, objectMemory, data)), fd)
		}, core.ErrInvalid},
		{"a memfd that is smaller than it says", func(x *intruder) {
			x.hello()
			data, fd := x.memory(4096, 1<<40, core.HandleMemFD, sealed)
			x.write(x.message(kindMemory, 1, appendObject(nil, 1, objectMemory, data)), fd)
		}, core.ErrInvalid},
		{"a file that is no memfd", func(x *intruder) {
			x.hello()
			f, err := os.Open("/proc/self/exe")
			if err != nil {
				x.t.Fatal(err)
			}
			defer f.Close()
			x.write(x.message(kindMemory, 1, appendObject(nil, 1, objectMemory, x.claim(int(f.Fd()), 4096, core.HandleMemFD))), int(f.Fd()))
		}, core.ErrInvalid},
		{"a pipe as a memfd", func(x *intruder) {
			x.hello()
			r, w, err := os.Pipe()
			if err != nil {
				x.t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			x.write(x.message(kindMemory, 1, appendObject(nil, 1, objectMemory, x.claim(int(r.Fd()), 4096, core.HandleMemFD))), int(r.Fd()))
		}, core.ErrInvalid},
		{"a type of handles that nobody opens", func(x *intruder) {
			x.hello()
			data, fd := x.memory(4096, 4096, core.HandleDMABuf, sealed)
			x.write(x.message(kindMemory, 1, appendObject(nil, 1, objectMemory, data)), fd)
		}, core.ErrInvalid},
		{"memory 0", func(x *intruder) {
			x.hello()
			data, fd := x.memory(4096, 4096, core.HandleMemFD, sealed)
			x.write(x.message(kindMemory, 1, appendObject(nil, 0, objectMemory, data)), fd)
		}, core.ErrInvalid},
		{"a memory twice", func(x *intruder) { x.hello(); x.pass(); x.pass() }, core.ErrInvalid},
		{"more memory than is permitted", func(x *intruder) {
			x.hello()
			data, fd := x.memory(1<<21, 1<<21, core.HandleMemFD, sealed)
			x.write(x.message(kindMemory, 1, appendObject(nil, 1, objectMemory, data)), fd)
		}, core.ErrOutOfMemory},
		{"more memories than are permitted", func(x *intruder) {
			x.hello()
			for i := range uint32(3) {
				data, fd := x.memory(4096, 4096, core.HandleMemFD, sealed)
				x.write(x.message(kindMemory, 1, appendObject(nil, i+1, objectMemory, data)), fd)
			}
		}, core.ErrOutOfMemory},
		{"a tensor of another memory", func(x *intruder) { x.hello(); x.tensor(func(*tensorMessage) {}) }, core.ErrInvalid},
		{"a tensor that may be written, of memory that may not", func(x *intruder) {
			x.hello()
			data, fd := x.memory(4096, 4096, core.HandleMemFD, sealed|unix.F_SEAL_FUTURE_WRITE)
			x.write(x.message(kindMemory, 1, appendObject(nil, 1, objectMemory, data)), fd)
			x.tensor(func(*tensorMessage) {})
		}, core.ErrInvalid},
		{"a tensor beyond its memory", func(x *intruder) { x.hello(); x.pass(); x.tensor(func(m *tensorMessage) { m.spec.Offset = 4096 - 28 }) }, core.ErrInvalid},
		{"a tensor before its memory", func(x *intruder) { x.hello(); x.pass(); x.tensor(func(m *tensorMessage) { m.spec.Offset = -4 }) }, core.ErrInvalid},
		{"a shape that overflows", func(x *intruder) {
			x.hello()
			x.pass()
			x.tensor(func(m *tensorMessage) {
				m.spec.Shape, m.spec.Strides = []int64{1 << 62, 1 << 62}, []int64{1 << 62, 1 << 62}
			})
		}, core.ErrInvalid},
		{"a negative extent", func(x *intruder) { x.hello(); x.pass(); x.tensor(func(m *tensorMessage) { m.spec.Shape[0] = -8 }) }, core.ErrInvalid},
		{"a negative stride", func(x *intruder) { x.hello(); x.pass(); x.tensor(func(m *tensorMessage) { m.spec.Strides[0] = -1 }) }, core.ErrInvalid},
		{"an element type without bits", func(x *intruder) {
			x.hello()
			x.pass()
			x.tensor(func(m *tensorMessage) { m.spec.DType = core.DType{} })
		}, core.ErrInvalid},
		{"elements without a memory", func(x *intruder) { x.hello(); x.tensor(func(m *tensorMessage) { m.memory = 0 }) }, core.ErrInvalid},
		{"a memory without elements", func(x *intruder) {
			x.hello()
			x.pass()
			x.tensor(func(m *tensorMessage) { m.spec.Shape[0] = 0 })
		}, core.ErrInvalid},
		{"an order by nothing", func(x *intruder) {
			x.hello()
			x.pass()
			x.tensor(func(m *tensorMessage) { m.order, m.by = objectSemaphore, 5 })
		}, core.ErrInvalid},
		{"a semaphore of a type that nobody opens", func(x *intruder) {
			x.hello()
			_, fd := x.memory(4096, 4096, core.HandleMemFD, sealed)
			x.write(x.message(kindOrder, 1, appendObject(nil, 2, objectSemaphore, x.semaphore(fd))), fd)
		}, core.ErrInvalid},
		{"an event", func(x *intruder) {
			x.hello()
			_, fd := x.memory(4096, 4096, core.HandleMemFD, sealed)
			x.write(x.message(kindOrder, 1, appendObject(nil, 2, objectEvent, x.semaphore(fd))), fd)
		}, core.ErrInvalid},
		{"a result that nothing waits for", func(x *intruder) {
			x.hello()
			x.pass()
			x.tensor(func(*tensorMessage) {})
			x.write(x.message(kindOrder, 0, appendResult(nil, result{tensor: 1})))
		}, core.ErrInvalid},
		{"a result with a descriptor", func(x *intruder) {
			x.hello()
			x.write(x.message(kindOrder, 1, appendResult(nil, result{tensor: 1})), 0)
		}, core.ErrInvalid},
		{"a tensor twice", func(x *intruder) {
			x.hello()
			x.pass()
			x.tensor(func(*tensorMessage) {})
			x.tensor(func(*tensorMessage) {})
		}, core.ErrInvalid},
		{"more tensors than are permitted", func(x *intruder) {
			x.hello()
			x.pass()
			for i := range uint64(3) {
				x.tensor(func(m *tensorMessage) { m.id = i })
			}
		}, core.ErrOutOfMemory},
		{"the end of a memory that is in use", func(x *intruder) {
			x.hello()
			x.pass()
			x.tensor(func(*tensorMessage) {})
			x.write(x.message(kindForget, 0, appendForget(nil, 1)))
		}, core.ErrInvalid},
		{"the end of a memory that is not open", func(x *intruder) { x.hello(); x.write(x.message(kindForget, 0, appendForget(nil, 1))) }, core.ErrInvalid},
		{"the release of a tensor that was not sent", func(x *intruder) { x.hello(); x.write(x.message(kindReleased, 0, appendReleased(nil, []uint64{1}))) }, core.ErrInvalid},
		{"a goodbye that is too long", func(x *intruder) { x.hello(); x.write(x.message(kindGoodbye, 0, make([]byte, 5000))) }, core.ErrInvalid},
		{"a goodbye because of what came", func(x *intruder) {
			x.hello()
			x.write(x.message(kindGoodbye, 0, appendGoodbye(nil, reasonInvalid, "no \x1b[31m")))
		}, core.ErrInvalid},
		{"a goodbye with an unknown reason", func(x *intruder) { x.write(x.message(kindGoodbye, 0, appendGoodbye(nil, 999, ""))) }, core.ErrInvalid},
		{"the end in the middle", func(x *intruder) { x.hello(); x.pass(); _ = x.socket.Close() }, core.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			coretest.CheckNoLeaks(t)
			before := coretest.Descriptors()
			t.Run("", func(t *testing.T) {
				d := host(t)
				mine, theirs := pair(t)
				a := made(t, mine, Options{Devices: []core.Device{d}, Limits: Limits{Tensors: 2, Memories: 2, Bytes: 1 << 20}})
				x := &intruder{t: t, socket: theirs}
				c.do(x)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				var err error
				for err == nil {
					var y *core.Tensor
					if y, _, err = a.Receive(ctx, d); err == nil {
						defer y.Close()
					}
				}
				t.Log(err)
				var typed *ConnError
				if !errors.Is(err, c.want) || !errors.As(err, &typed) {
					t.Errorf("error %v, want %v", err, c.want)
				}
			})
			coretest.WantDescriptors(t, before, "afterwards")
		})
	}
}

// Both sides name both versions.
func TestAnotherVersionIsRefusedWithBothNamed(t *testing.T) {
	d := host(t)
	mine, theirs := pair(t)
	a := made(t, mine, of(d))
	x := &intruder{t: t, socket: theirs}
	b := x.message(kindHello, 0, appendHello(nil, hello{}))
	b[4] = 2
	x.write(b)
	err := a.Handshake(t.Context())
	want := "the peer uses version 2 of the format, and this process version 1"
	if !errors.Is(err, core.ErrVersion) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say %q", err, want)
	}
	for _, k := range []kind{kindHello, kindGoodbye} {
		buf := make([]byte, maxMessage)
		n, _, _, _, err := x.socket.ReadMsgUnix(buf, nil)
		if err != nil {
			t.Fatal(err)
		}
		h, payload, err := readHeader(buf[:n], 0)
		if err != nil || h.kind != k {
			t.Fatalf("a message of kind %d, error %v; want kind %d", h.kind, err, k)
		}
		if k == kindGoodbye {
			if r, text, err := readGoodbye(payload); err != nil || r != reasonVersion || !strings.Contains(text, want) {
				t.Errorf("the goodbye says %d, %q, error %v", r, text, err)
			}
		}
	}
}

// A peer that sends many small messages is handled as fast as it sends, and Close ends it.
func TestAFloodOfMessages(t *testing.T) {
	d := host(t)
	mine, theirs := pair(t)
	a := made(t, mine, of(d))
	x := &intruder{t: t, socket: theirs}
	x.hello()
	data, fd := x.memory(4096, 4096, core.HandleMemFD, unix.F_SEAL_SHRINK)
	rounds := uint32(2000)
	if !coretest.Quick() {
		rounds = 500_000
	}
	before := coretest.Descriptors()
	for i := range rounds {
		x.write(x.message(kindMemory, 1, appendObject(nil, i+1, objectMemory, data)), fd)
		x.write(x.message(kindForget, 0, appendForget(nil, i+1)))
	}
	if err := a.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	<-a.Done()
	_ = a.Close()
	coretest.WantDescriptors(t, before-2, "after the flood")
}

// A peer that reads nothing, like a process that is stopped, blocks nobody beyond the end of its
// context.
func TestAPeerThatStops(t *testing.T) {
	d := host(t)
	mine, theirs := pair(t)
	a := made(t, mine, of(d))
	x := &intruder{t: t, socket: theirs}
	x.write(x.message(kindHello, 0, appendHello(nil, hello{
		limits:  Limits{Tensors: maxLimit, Memories: maxLimit, Bytes: 1 << 40},
		devices: []PeerDevice{describe(d)},
	})))
	y := shareable(t, d, 10, memfd)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	n := 0
	var err error
	for err == nil {
		if _, err = a.Send(ctx, y); err == nil {
			n++
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("after %d tensors: %v", n, err)
	}
	if s := a.Stats(); s.InFlight != n || s.Sent != int64(n) {
		t.Errorf("%d tensors were sent, and %+v", n, s)
	}
	if err := a.Err(); err != nil {
		t.Errorf("the connection has ended: %v", err)
	}
	blocked := make(chan error, 1)
	go func() {
		_, err := a.Send(context.Background(), y)
		blocked <- err
	}()
	_ = a.Close()
	if err := <-blocked; !errors.Is(err, core.ErrClosed) {
		t.Errorf("Send when the connection is closed: %v", err)
	}
}

// withoutDescriptors calls f while this process can open no descriptor.
func withoutDescriptors(t *testing.T, f func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	f()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
}

// A side that cannot open a descriptor says so, and nothing stays open.
func TestWithoutDescriptors(t *testing.T) {
	coretest.CheckNoLeaks(t)
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	x := shareable(t, d, 10, memfd)
	if err := errors.Join(a.Handshake(t.Context()), b.Handshake(t.Context())); err != nil {
		t.Fatal(err)
	}
	var err error
	withoutDescriptors(t, func() { _, err = a.Send(t.Context(), x) })
	if !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("the memory cannot be exported: %v", err)
	}
	send(t, a, x) // the connection goes on
	receive(t, b, e)

	mine, theirs := pair(t)
	c, peer := made(t, mine, of(d)), &intruder{t: t, socket: theirs}
	peer.hello()
	if err := c.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, fd := peer.memory(4096, 4096, core.HandleMemFD, unix.F_SEAL_SHRINK)
	withoutDescriptors(t, func() {
		peer.write(peer.message(kindMemory, 1, appendObject(nil, 1, objectMemory, data)), fd)
		peer.write(peer.message(kindReleased, 0, nil))
		<-c.Done()
	})
	if err := c.Err(); !errors.Is(err, core.ErrInvalid) { // of the message after it
		t.Errorf("the connection should go on without the descriptor: %v", err)
	}
	// Only memory may be lost.
	mine, theirs = pair(t)
	c, peer = made(t, mine, of(d)), &intruder{t: t, socket: theirs}
	peer.hello()
	if err := c.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	withoutDescriptors(t, func() {
		peer.write(peer.message(kindMemory, 1, appendObject(nil, 1, objectMemory, data[:20])), fd)
		<-c.Done()
	})
	if err := c.Err(); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("a message that is cut short, and whose descriptor is lost: %v", err)
	}
}
