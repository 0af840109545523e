//go:build ucx && linux && cgo

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/remote/internal/ucx"
	"github.com/dlx-go/dlx/stream"
)

// cuda opens the first device of CUDA, or skips the test.
func cuda(t testing.TB) core.Device {
	t.Helper()
	for _, b := range all.New().Backends() {
		if b.Name() != "cuda" || coretest.LeavesOut(t, b.Probe(t.Context()).Reason, "a driver for CUDA") {
			continue
		}
		list, err := b.Devices(t.Context())
		if err != nil || len(list) == 0 {
			t.Fatalf("%d devices of CUDA: %v", len(list), err)
		}
		d, err := b.Open(t.Context(), list[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	t.Skip("no driver for CUDA here")
	return nil
}

// UCX knows memory of the host. Of other memory, PathOf and reports say the same: that UCX uses it, or why not.
func TestPathsSayWhy(t *testing.T) {
	if err := ucx.Knows(ucx.Host); err != nil {
		t.Errorf("UCX %s does not know memory of the host: %v", Version(), err)
	}
	for device, kind := range deviceMemory {
		m, reason := PathOf(core.DeviceID{Type: device})
		if err := ucx.Knows(kind); err == nil && (m != exchange.Direct || reason != "") ||
			err != nil && (m != exchange.Staged || !strings.Contains(reason, "UCX "+Version())) {
			t.Errorf("%v: %v, %q, and UCX says %v", device, m, reason, err)
		}
	}
	if m, reason := PathOf(core.DeviceID{Type: core.DeviceVulkan}); m != exchange.Staged || reason == "" {
		t.Errorf("vulkan: %v, %q", m, reason)
	}
	defer asIfKnown(core.DeviceCUDA)()
	for n, direct := range map[int64]bool{
		0: false, 1: false, ucx.MaxEager: false, ucx.MaxEager + 1: true, pieceBytes: true, pieceBytes + 1: false, pieceBytes + ucx.MaxEager + 1: true,
	} {
		if _, reason := pathOf(core.DeviceID{Type: core.DeviceCUDA}, n); (reason == "") != direct {
			t.Errorf("%d bytes of CUDA: %q", n, reason)
		}
	}
}

// asIfKnown makes UCX use memory of devices of a type as memory of the host. The caller calls the result at the end of the test, before
// which no other one may run.
func asIfKnown(device core.DeviceType) (restore func()) {
	before := maps.Clone(deviceMemory)
	deviceMemory[device] = ucx.Host
	return func() { deviceMemory = before }
}

// plain is a device of another type than the host, whose memory is memory of the host nevertheless.
type plain struct{ core.Device }

func (p plain) ID() core.DeviceID { return core.DeviceID{Type: core.DeviceExt} }

func (p plain) Alloc(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	m, err := p.Device.Alloc(ctx, size, o)
	m.ID, m.Device = p.ID(), p
	return m, err
}

// elementsOf returns the memory of a tensor on a plain device.
func elementsOf(t testing.TB, x *core.Tensor) []byte {
	t.Helper()
	p, err := x.Address()
	if err != nil {
		t.Fatal(err)
	}
	return unsafe.Slice((*byte)(addressOf(p)), x.NumBytes())
}

// Tensors whose memory UCX uses itself arrive right, though the device is still writing when they are sent, and nothing is copied.
func TestDeviceMemoryGoesToUCX(t *testing.T) {
	d := plain{host(t)}
	defer asIfKnown(d.ID().Type)()
	keep := coretest.Keep(t)
	a, b := connect(t, Options{})
	// late makes a tensor whose elements are written when somebody may be waiting for them.
	late := func(n int, seed uint64) *core.Tensor {
		x := keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{int64(n)}, core.AllocOptions{}))
		memory, err := x.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		write := &transfer{over: make(chan struct{})}
		memory.Wrote(write)
		go func() {
			time.Sleep(5 * time.Millisecond)
			copy(elementsOf(t, x), coretest.Pattern(n, seed))
			close(write.over)
		}()
		return x
	}
	for i, n := range []int{ucx.MaxEager + 1, 100_000, 2*pieceBytes + 12_345} {
		y, sent, received := pass(t, a, b, late(n, uint64(i)), d)
		if !bytes.Equal(elementsOf(t, y), coretest.Pattern(n, uint64(i))) {
			t.Errorf("%d bytes differ", n)
		}
		for _, r := range []Report{sent, received} {
			if r.Device != d.ID() || r.Mechanism != exchange.Direct || r.Reason != "" || r.BytesCopied != 0 || r.Bytes != int64(n) {
				t.Errorf("the report of %d bytes is\n%v", n, r)
			}
		}
		if sent.Wait != stream.HostWait || received.Wait != stream.NoWait {
			t.Errorf("the sides waited by %v and %v", sent.Wait, received.Wait)
		}
	}
	const rows, width = 5, 50_000
	x := keep(late(rows*width, 1).Reshape(rows, width))
	f := offer(t, a, x, OfferOptions{Writable: true})
	if _, err := b.PutRows(t.Context(), f.Descriptor(), 2, keep(late(3*width, 2).Reshape(3, width))); err != nil {
		t.Fatal(err)
	}
	y, r, err := b.FetchRows(t.Context(), f.Descriptor(), 1, 5, d)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	if r.Mechanism != exchange.Direct || r.BytesCopied != 0 {
		t.Errorf("the report of a fetch is\n%v", r)
	}
	want := append(coretest.Pattern(rows*width, 1)[width:2*width:2*width], coretest.Pattern(3*width, 2)...)
	if !bytes.Equal(elementsOf(t, y), want) {
		t.Error("the rows that were put and fetched differ")
	}
	z, _, err := b.Fetch(t.Context(), f.Descriptor(), d.Device) // to the host
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if !bytes.Equal(elementsOf(t, z)[width:], want) {
		t.Error("the tensor that was fetched to the host differs")
	}
	if s := a.Stats(); s.BytesCopied != 0 {
		t.Errorf("stats %+v", s)
	}
}

// cardVariable makes the test binary the peer of TestCardsOfTwoProcesses.
const cardVariable = "DLX_REMOTE_CARD"

// cardPeer receives tensors on a device of CUDA, and sends them back. It does not return.
func cardPeer(address string) {
	ctx := context.Background()
	d, err := all.New().Open(ctx, core.DeviceID{Type: core.DeviceCUDA})
	var c *Conn
	if err == nil {
		c, err = Dial(ctx, address, insecure)
	}
	for err == nil {
		var x *core.Tensor
		var r Report
		if x, r, err = c.Receive(ctx, d); err != nil {
			os.Exit(0) // the other side has ended the connection
		}
		if _, err = c.SendLabeled(ctx, x, r.Mechanism.String()); err == nil {
			err = x.Close()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Tensors go from a card in one process to a card in another one, and back. With DLX_REMOTE_MUST_BE_DIRECT, UCX must use the memory of the cards.
func TestCardsOfTwoProcesses(t *testing.T) {
	d := cuda(t)
	l, err := Listen("127.0.0.1:0", insecure)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a process that hangs fails
	defer cancel()
	p := exec.CommandContext(ctx, os.Args[0])
	p.Env = append(os.Environ(), childVariable+"="+l.Addr().String(), cardVariable+"=1")
	p.Stderr = os.Stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Wait() }()
	c, err := l.Accept(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	defer c.Close()
	way, why := PathOf(d.ID())
	t.Logf("UCX %s: %v; %s", Version(), way, why)
	if os.Getenv("DLX_REMOTE_MUST_BE_DIRECT") != "" && way != exchange.Direct {
		t.Errorf("UCX does not use the memory of %v: %s", d.ID(), why)
	}
	for i, n := range []int{1000, 100_000, 5*pieceBytes + 54_321} {
		want := way
		if n <= ucx.MaxEager {
			want = exchange.Staged
		}
		x := on(t, d, n, uint64(i))
		sent, err := c.Send(ctx, x)
		if err != nil {
			t.Fatal(err)
		}
		y, received, err := c.Receive(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		if string(coretest.Get(t, d, y)) != string(coretest.Pattern(n, uint64(i))) {
			t.Errorf("%d bytes differ", n)
		}
		_ = y.Close()
		if sent.Mechanism != want || received.Mechanism != want || received.Label != want.String() {
			t.Errorf("the reports of %d bytes are\n%v\n%v", n, sent, received)
		}
		t.Log(sent)
	}
}

// Reports of Gather and Relay say what was copied: nothing if UCX uses the memory itself, and otherwise what went through the host.
func TestGatherReportsWhatWasCopied(t *testing.T) {
	const rows, width = 300, 50_000 // several portions, whose last pieces are fetched
	for _, known := range []bool{true, false} {
		o := Options{Insecure: true}
		d := plain{host(t)}
		if known {
			defer asIfKnown(d.ID().Type)()
		}
		l, stop := serving(t, o)
		defer stop()
		below, stopBelow := serving(t, o)
		defer stopBelow()
		keep := coretest.Keep(t)
		f := offerOf(t, l, keep(row(t, rows*width, 1).Reshape(rows, width)))
		device := core.Device(d)
		if !known {
			device = coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Opaque: true})
		}
		y, r, err := Gather(t.Context(), []Part{{Descriptor: f.Descriptor()}}, device, o)
		if err != nil {
			t.Fatal(err)
		}
		defer y.Close()
		z, relayed, s, err := below.Relay(t.Context(), Fanout{Descriptor: f.Descriptor(), Peers: []string{below.Addr().String()}}, 0, device)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		defer relayed.Close()
		for _, r := range []GatherReport{r, s} {
			if r.Device != device.ID() || r.Bytes != rows*width {
				t.Errorf("the report is\n%v", r)
			}
			if known && (r.Mechanism != exchange.Direct || r.Reason != "" || r.BytesCopied != 0) {
				t.Errorf("the report of memory that UCX uses itself is\n%v", r)
			}
			if !known && (r.Mechanism != exchange.Staged || r.Reason == "" || r.BytesCopied != r.Bytes) {
				t.Errorf("the report of memory that UCX does not use is\n%v", r)
			}
		}
	}
}

// If memory of a device cannot be waited for, UCX does not get it, and whoever waits until UCX has left the memory goes on.
func TestMemoryThatCannotBeWaitedFor(t *testing.T) {
	_, b := connect(t, Options{})
	x := row(t, 100_000, 1)
	memory, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	memory.Wrote(failedWrite(core.ErrDeviceLost))
	in := &inbound{bytes: x.NumBytes(), left: make(chan struct{})}
	if err := b.fillIdle(t.Context(), in, x, ucx.CUDA); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("memory whose last write has failed: %v", err)
	}
	select {
	case <-in.left:
	default:
		t.Error("the memory does not count as left")
	}
}
