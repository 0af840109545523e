package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// metricsOf returns the metrics of a place.
func metricsOf(id core.DeviceID) core.DeviceMetrics {
	for _, d := range core.ReadMetrics().Devices {
		if d.Device == id {
			return d
		}
	}
	return core.DeviceMetrics{Device: id}
}

// since returns by how much the metrics of a place differ from those of before.
func since(before core.DeviceMetrics) core.DeviceMetrics {
	d := metricsOf(before.Device)
	d.Allocs, d.AllocatedBytes, d.AllocErrors = d.Allocs-before.Allocs, d.AllocatedBytes-before.AllocatedBytes, d.AllocErrors-before.AllocErrors
	d.Frees, d.FreedBytes = d.Frees-before.Frees, d.FreedBytes-before.FreedBytes
	d.Tensors, d.Buffers = d.Tensors-before.Tensors, d.Buffers-before.Buffers
	d.Opens, d.Closes = d.Opens-before.Opens, d.Closes-before.Closes
	d.HostWaits, d.HostWaitTime = d.HostWaits-before.HostWaits, d.HostWaitTime-before.HostWaitTime
	return d
}

func wantSince(t *testing.T, what string, before, want core.DeviceMetrics) {
	t.Helper()
	want.Device = before.Device
	if got := since(before); got != want {
		t.Errorf("%s: the metrics changed by\n%+v, want\n%+v", what, got, want)
	}
}

// renamed is a simulated device with an ID of its own, whose metrics no other test changes.
type renamed struct {
	core.Device
	id core.DeviceID
}

func (r *renamed) ID() core.DeviceID { return r.id }

func (r *renamed) Alloc(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	m, err := r.Device.Alloc(ctx, size, o)
	m.ID, m.Device = r.id, r
	return m, err
}

// simulated opens a device with an index that no other test uses.
func simulated(t *testing.T, index int32) (*coretest.Backend, core.Device) {
	t.Helper()
	b := coretest.NewBackend(coretest.Options{Log: t.Logf})
	d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceExt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, &renamed{d, core.DeviceID{Type: core.DeviceExt, Index: index}}
}

func TestMetricsOfAllocations(t *testing.T) {
	for _, index := range []int32{5, 20} { // one with a direct way to its counters, and one without
		b, d := simulated(t, index)
		before := metricsOf(d.ID())
		x, err := core.Empty(t.Context(), d, core.TypeInt32, []int64{10, 10}, core.AllocOptions{})
		if err != nil {
			t.Fatal(err)
		}
		wantSince(t, "a tensor", before, core.DeviceMetrics{Allocs: 1, AllocatedBytes: 400, Tensors: 1, Buffers: 1})
		view, err := x.Slice(0, 0, 5, 1)
		if err != nil {
			t.Fatal(err)
		}
		m, err := core.Alloc(t.Context(), d, 1000, core.AllocOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := core.DeviceMetrics{Allocs: 2, AllocatedBytes: 1400, Tensors: 2, Buffers: 1}
		wantSince(t, "a view of it, and memory", before, want)
		if live := since(before).LiveBytes(); live != 1400 {
			t.Errorf("%d bytes are live, want 1400", live)
		}

		b.Fail("Alloc", 1, core.ErrOutOfMemory)
		if _, err := core.Empty(t.Context(), d, core.TypeInt32, []int64{1}, core.AllocOptions{}); !errors.Is(err, core.ErrOutOfMemory) {
			t.Fatal(err)
		}
		want.AllocErrors = 1
		wantSince(t, "an allocation that failed", before, want)
		if _, err := core.Alloc(t.Context(), nil, 1, core.AllocOptions{}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("Alloc without a device: %v", err)
		}

		m.Free()
		want.Frees, want.FreedBytes = 1, 1000
		wantSince(t, "the memory freed", before, want)
		_ = x.Close()
		want.Tensors = 1
		wantSince(t, "the tensor closed, and not its view", before, want)
		_ = view.Close()
		wantSince(t, "all closed", before, core.DeviceMetrics{Allocs: 2, AllocatedBytes: 1400, AllocErrors: 1, Frees: 2, FreedBytes: 1400})
		if live := since(before).LiveBytes(); live != 0 {
			t.Errorf("%d bytes are live, want none", live)
		}
	}
}

// Memory that work still uses is given back to the device at once, which frees it later.
func TestMetricsOfMemoryThatWorkUses(t *testing.T) {
	_, d := simulated(t, 6)
	before := metricsOf(d.ID())
	x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{8}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	work := newEvent()
	b.Used(work)
	_ = x.Close()
	wantSince(t, "closed while work uses it", before, core.DeviceMetrics{Allocs: 1, AllocatedBytes: 8, Frees: 1, FreedBytes: 8})
	close(work.c)
}

// If the copy of a clone fails, its memory is freed.
func TestMetricsOfACloneThatFails(t *testing.T) {
	fault, d := simulated(t, 7)
	before := metricsOf(d.ID())
	x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{8}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	fault.Fail("Copy", 1, core.ErrDeviceLost)
	if _, err := x.Clone(t.Context()); !errors.Is(err, core.ErrDeviceLost) {
		t.Fatal(err)
	}
	wantSince(t, "a clone that failed", before, core.DeviceMetrics{Allocs: 2, AllocatedBytes: 16, Frees: 1, FreedBytes: 8, Tensors: 1, Buffers: 1})
}

// The garbage collector closes tensors that a program lost, which frees their memory.
func TestMetricsOfLostTensors(t *testing.T) {
	_, d := simulated(t, 8)
	before, leaked := metricsOf(d.ID()), core.ReadMetrics().LostTensors
	const n = 500 // more than a chunk, so that whole chunks are lost
	func() {
		for range n {
			if _, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{4}, core.AllocOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}()
	// The tensors of chunks in use stay reachable: make core give these chunks up.
	for range 4000 {
		x, err := core.FromSlice([]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		_ = x.Close()
	}
	for end := time.Now().Add(20 * time.Second); (since(before).Frees < n || core.ReadMetrics().LostTensors < leaked+n) && time.Now().Before(end); {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	wantSince(t, "lost tensors", before, core.DeviceMetrics{Allocs: n, AllocatedBytes: 4 * n, Frees: n, FreedBytes: 4 * n})
	if lost := core.ReadMetrics().LostTensors - leaked; lost != n {
		t.Errorf("%d tensors were lost, want %d", lost, n)
	}
	coretest.ExpectLeaks(n)
}

func TestMetricsOfWaits(t *testing.T) {
	_, d := simulated(t, 9)
	x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{8}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	for name, wait := range map[string]func(context.Context) error{
		"WaitReady": x.WaitReady, "WaitIdle": x.WaitIdle,
	} {
		before := metricsOf(d.ID())
		if err := wait(t.Context()); err != nil || since(before).HostWaits != 0 {
			t.Errorf("%s without work: %v, %d waits", name, err, since(before).HostWaits)
		}
		work := newEvent()
		b.Wrote(work)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s for work without an end: %v", name, err)
		}
		cancel()
		close(work.c)
		if got := since(before); got.HostWaits != 1 || got.HostWaitTime <= 0 {
			t.Errorf("%s: %d waits of %v", name, got.HostWaits, got.HostWaitTime)
		}
	}
}

func TestMetricsAsJSON(t *testing.T) {
	x, err := core.FromSlice([]byte{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	m := core.ReadMetrics()
	if metricsOf(core.CPU).Tensors == 0 {
		t.Error("a Go slice is no tensor of the CPU")
	}
	if !slices.IsSortedFunc(m.Devices, func(a, b core.DeviceMetrics) int { return strings.Compare(a.Device.String(), b.Device.String()) }) {
		t.Errorf("the devices are in no order: %+v", m.Devices)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var again core.Metrics
	if err := json.Unmarshal(text, &again); err != nil || !slices.Equal(again.Devices, m.Devices) {
		t.Errorf("%s: %v", text, err)
	}
}

// Many goroutines allocate, lose, view and wait while others read the metrics.
func TestMetricsHammer(t *testing.T) {
	_, d := simulated(t, 10)
	before := metricsOf(d.ID())
	const workers, rounds = 8, 200
	done := make(chan struct{})
	var work, readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				for _, m := range core.ReadMetrics().Devices {
					if m.LiveBytes() < 0 || m.OpenHandles() < 0 || m.Frees > m.Allocs || m.Buffers > m.Tensors {
						t.Errorf("more was freed than allocated: %+v", m)
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range workers {
		work.Go(func() {
			for range rounds {
				x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{16}, core.AllocOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				view, err := x.Slice(0, 0, 4, 1)
				if err != nil {
					t.Error(err)
				}
				_, _ = x.Close(), view.Close()
			}
		})
	}
	work.Wait()
	close(done)
	readers.Wait()
	n := int64(workers * rounds)
	wantSince(t, "all closed", before, core.DeviceMetrics{Allocs: n, AllocatedBytes: 16 * n, Frees: n, FreedBytes: 16 * n})
}

func TestMetricsPlus(t *testing.T) {
	cuda := core.DeviceID{Type: core.DeviceCUDA}
	a := core.Metrics{
		Devices:    []core.DeviceMetrics{{Device: cuda, Allocs: 1, Frees: 2, AllocatedBytes: 3, FreedBytes: 4, AllocErrors: 5, Tensors: 6, Buffers: 7, Opens: 8, Closes: 9, HostWaits: 10, HostWaitTime: 11}},
		Moves:      []core.MoveMetrics{{From: core.CPU, To: cuda, Mechanism: "direct", Moves: 1, Bytes: 2}},
		MoveErrors: []core.MoveErrorMetrics{{Error: "closed", Count: 3}}, LostTensors: 4,
		Share: core.ShareMetrics{Connections: 5, Refused: 1, Ended: []core.ShareEndMetrics{{Reason: "limit", Count: 1}}, Sent: 2, Received: 3, Released: 4, BytesSent: 5,
			BytesReceived: 6, BytesCopied: 7, MemoriesSent: 8, MemoriesOpened: 9, InFlight: 10, Held: 11,
			FramesSent: 12, FramesReleased: 13, FramesReceived: 14, FramesDropped: 15, FrameBytesSent: 16, FrameBytesReceived: 17, LoanWaits: 18, ReceiveWaits: 19, FramesInFlight: 20, FramesHeld: 21},
		Remote: core.RemoteMetrics{Connections: 5, Refused: 1, Ended: []core.RemoteCount{{Name: "silent", Count: 1}}, Transports: []core.RemoteCount{{Name: "tcp", Count: 2}}, Sent: 2, Received: 3,
			BytesSent: 4, BytesReceived: 5, BytesCopied: 6, Served: 7, RequestsRefused: 8, Dropped: 9, Leases: 10, InFlight: 11, Waiting: 12, Offers: 13},
	}
	b := core.Metrics{
		Devices:    []core.DeviceMetrics{{Device: core.CPU, Allocs: 1}},
		Moves:      []core.MoveMetrics{{From: core.CPU, To: cuda, Mechanism: "alias", Moves: 1}},
		MoveErrors: []core.MoveErrorMetrics{{Error: "canceled", Count: 1}},
		Share:      core.ShareMetrics{Ended: []core.ShareEndMetrics{{Reason: "closed", Count: 1}}},
		Remote:     core.RemoteMetrics{Transports: []core.RemoteCount{{Name: "sysv", Count: 1}}},
	}
	twice := core.Metrics{
		Devices:    []core.DeviceMetrics{{Device: core.CPU, Allocs: 1}, {Device: cuda, Allocs: 2, Frees: 4, AllocatedBytes: 6, FreedBytes: 8, AllocErrors: 10, Tensors: 12, Buffers: 14, Opens: 16, Closes: 18, HostWaits: 20, HostWaitTime: 22}},
		Moves:      []core.MoveMetrics{{From: core.CPU, To: cuda, Mechanism: "alias", Moves: 1}, {From: core.CPU, To: cuda, Mechanism: "direct", Moves: 2, Bytes: 4}},
		MoveErrors: []core.MoveErrorMetrics{{Error: "canceled", Count: 1}, {Error: "closed", Count: 6}}, LostTensors: 8,
		Share: core.ShareMetrics{Connections: 10, Refused: 2, Ended: []core.ShareEndMetrics{{Reason: "closed", Count: 1}, {Reason: "limit", Count: 2}}, Sent: 4, Received: 6, Released: 8,
			BytesSent: 10, BytesReceived: 12, BytesCopied: 14, MemoriesSent: 16, MemoriesOpened: 18, InFlight: 20, Held: 22,
			FramesSent: 24, FramesReleased: 26, FramesReceived: 28, FramesDropped: 30, FrameBytesSent: 32, FrameBytesReceived: 34, LoanWaits: 36, ReceiveWaits: 38, FramesInFlight: 40, FramesHeld: 42},
		Remote: core.RemoteMetrics{Connections: 10, Refused: 2, Ended: []core.RemoteCount{{Name: "silent", Count: 2}}, Transports: []core.RemoteCount{{Name: "sysv", Count: 1}, {Name: "tcp", Count: 4}}, Sent: 4, Received: 6,
			BytesSent: 8, BytesReceived: 10, BytesCopied: 12, Served: 14, RequestsRefused: 16, Dropped: 18, Leases: 20, InFlight: 22, Waiting: 24, Offers: 26},
	}
	for range 2 { // the second time shows that the first has changed nothing
		if got := a.Plus(b).Plus(a); !reflect.DeepEqual(got, twice) {
			t.Errorf("%+v, want %+v", got, twice)
		}
	}
	ended := a.Ended().Devices[0]
	want := core.DeviceMetrics{Device: cuda, Allocs: 1, Frees: 1, AllocatedBytes: 3, FreedBytes: 3, AllocErrors: 5, Opens: 8, Closes: 8, HostWaits: 10, HostWaitTime: 11}
	if ended != want || a.Devices[0].Tensors != 6 {
		t.Errorf("%+v, want %+v", ended, want)
	}
	if r := a.Ended().Remote; r.OpenConnections() != 0 || r.InFlight != 0 || r.Waiting != 0 || r.Offers != 0 || r.Sent != 2 || len(r.Ended) != 2 || a.Remote.OpenConnections() != 4 || len(a.Remote.Ended) != 1 {
		t.Errorf("%+v", r)
	}
	s := a.Ended().Share
	if s.OpenConnections() != 0 || s.InFlight != 0 || s.Held != 0 || s.FramesInFlight != 0 || s.FramesHeld != 0 || s.FramesSent != 12 || s.Sent != 2 || len(s.Ended) != 2 || a.Share.OpenConnections() != 4 || len(a.Share.Ended) != 1 {
		t.Errorf("%+v", s)
	}
}
