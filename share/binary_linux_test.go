package share

import (
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// binaryDevices opens a Vulkan device twice. It skips the test with a driver that shares no binary
// semaphores, such as lavapipe.
func binaryDevices(t *testing.T) (list [2]core.Device) {
	t.Helper()
	for i := range list {
		registry := all.New()
		backend, err := registry.Backend("vulkan")
		if err != nil {
			t.Skip(err)
		}
		coretest.NeedDriver(t, backend.Probe(t.Context()).Reason, "a driver for Vulkan")
		d, err := registry.Open(t.Context(), core.DeviceID{Type: core.DeviceVulkan})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		list[i] = d
	}
	if x, ok := core.As[core.SemaphoreExporter](list[0]); !ok || !slices.Contains(x.SemaphoreExportTypes(), core.HandleBinaryFD) {
		t.Skipf("%s shares no binary semaphores, or dlx uses its timelines", list[0].Properties().Driver)
	}
	return list
}

// onVulkan makes a tensor of the card, and the same tensor on a device of Vulkan. The memory of
// SwiftShader itself cannot be shared: its files cannot be sealed.
func onVulkan(t *testing.T, card *card, d core.Device) *core.Tensor {
	t.Helper()
	x, err := core.Empty(t.Context(), card.device, core.TypeInt32, []int64{binaryWords}, exchange.AllocFor(card.device, d))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	y, _, err := exchange.To(t.Context(), x, d, exchange.Options{Copy: exchange.Never})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { y.Close() })
	return y
}

const binaryWords = 4 << 20

// fillSlowly enqueues copies to x that take a while. The last one is of numbers from first on.
func fillSlowly(t *testing.T, s core.Stream, x *core.Tensor, first int32) {
	t.Helper()
	d := x.Device()
	for i := range int32(4) {
		list := make([]int32, binaryWords)
		for k := range list {
			list[k] = first + int32(k) + 3 - i
		}
		from, err := core.FromSlice(list, binaryWords)
		if err != nil {
			t.Fatal(err)
		}
		there, err := core.Empty(t.Context(), d, core.TypeInt32, []int64{binaryWords}, core.AllocOptions{})
		if err == nil {
			err = errors.Join(d.Copy(t.Context(), nil, there, from), d.Copy(t.Context(), s, x, there), there.Close(), from.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Two Vulkan devices wait for each other by binary semaphores, each of which serves one tensor.
func TestBinarySemaphoresOrderTwoProcesses(t *testing.T) {
	devices, a, b := binaryDevices(t), newCard(t), newCard(t)
	sender, receiver := connected(t, of(a.device, devices[0]), of(b.device, devices[1]))
	x := onVulkan(t, a, devices[0])
	from, to := newStream(t, devices[0]), newStream(t, devices[1])
	waits := map[stream.Wait]int{}
	for round := range int32(8) {
		fillSlowly(t, from, x, round)
		sent := send(t, sender, x)
		y, r := receive(t, receiver, devices[1])
		if r.BytesCopied != 0 || sent.BytesCopied != 0 {
			t.Fatalf("%v; %v", sent, r)
		}
		waits[r.Wait]++
		z, err := core.Empty(t.Context(), devices[1], core.TypeInt32, []int64{binaryWords}, core.AllocOptions{})
		if err == nil {
			err = devices[1].Copy(t.Context(), to, z, y)
		}
		if err != nil {
			t.Fatal(err)
		}
		y.Close()
		got := make([]int32, binaryWords)
		into, err := core.FromSlice(got, binaryWords)
		if err == nil {
			err = devices[1].Copy(t.Context(), nil, into, z)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			if v != round+int32(i) {
				t.Fatalf("round %d: element %d is %d, want %d; sent: %v, received: %v", round, i, v, round+int32(i), sent, r)
			}
		}
		into.Close()
		z.Close()
		released(t, sender)
	}
	// Work may have ended before it was sent, or before it was received.
	if waits[stream.SemaphoreWait] == 0 || waits[stream.HostWait] != 0 {
		t.Errorf("waits: %v", waits)
	}
	until(t, "the semaphores are closed", func() bool {
		receiver.mu.Lock()
		defer receiver.mu.Unlock()
		return sender.laneCount() == 0 && len(receiver.semaphores) == 0
	})
}

// A receiver whose peer has ended releases its device from a binary semaphore.
func TestABinarySemaphoreOfAPeerThatHasEnded(t *testing.T) {
	devices, a, b := binaryDevices(t), newCard(t), newCard(t)
	socket, y := pair(t)
	sender, receiver := made(t, socket, of(a.device, devices[0])), made(t, y, of(b.device, devices[1]))
	x := onVulkan(t, a, devices[0])
	from, to := newStream(t, devices[0]), newStream(t, devices[1])
	for range 4 {
		fillSlowly(t, from, x, 0)
	}
	send(t, sender, x)
	got, r := receive(t, receiver, devices[1])
	z, err := core.Empty(t.Context(), devices[1], core.TypeInt32, []int64{binaryWords}, core.AllocOptions{})
	if err == nil {
		err = devices[1].Copy(t.Context(), to, z, got)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	_ = unixShutdown(socket)
	<-receiver.Done()
	if err := to.Synchronize(t.Context()); err != nil {
		t.Error(err)
	}
	if err := z.WaitReady(t.Context()); r.Wait == stream.SemaphoreWait && err != nil && !errors.As(err, new(*ConnError)) {
		t.Errorf("reading gives %v", err)
	}
}
