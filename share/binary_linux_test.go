//go:build cgo

package share

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// childBinary sends tensors that Vulkan still writes.
const childBinary = "binary"

var _ = role(childBinary, sendBinary)

// binaryWords are enough that a driver for the CPU is still at work when a tensor is received.
const binaryWords = 4 << 20

// vulkanCard is a card with a device of Vulkan that shares binary semaphores. The memory is that of the
// simulated card: SwiftShader's own cannot be shared, since its files cannot be sealed.
type vulkanCard struct {
	card
	vulkan core.Device
}

// errNoBinary says that the driver shares no binary semaphores, as lavapipe does not.
var errNoBinary = errors.New("no driver for Vulkan shares binary semaphores here")

// openVulkanCard opens both devices. The caller closes them.
func openVulkanCard(ctx context.Context) (x vulkanCard, err error) {
	registry := all.New()
	backend, err := registry.Backend("vulkan")
	if err != nil || !backend.Probe(ctx).Available {
		return x, errNoBinary
	}
	if x.vulkan, err = registry.Open(ctx, core.DeviceID{Type: core.DeviceVulkan}); err != nil {
		return x, err
	}
	e, ok := core.As[core.SemaphoreExporter](x.vulkan)
	if !ok || !slices.Contains(e.SemaphoreExportTypes(), core.HandleBinaryFD) {
		return x, errors.Join(errNoBinary, x.vulkan.Close())
	}
	if x.card, err = openCard(ctx); err != nil {
		return x, errors.Join(err, x.vulkan.Close())
	}
	return x, nil
}

func (x vulkanCard) devices() []core.Device { return []core.Device{x.device, x.vulkan} }

// newVulkanCard opens both devices until the end of the test.
func newVulkanCard(t *testing.T) vulkanCard {
	t.Helper()
	x, err := openVulkanCard(t.Context())
	if errors.Is(err, errNoBinary) || errors.Is(err, errNoCard) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range slices.Backward(x.devices()) {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return x
}

// shared makes a tensor of the card, and returns it as one of Vulkan. The caller closes both.
func (x vulkanCard) shared(ctx context.Context) (own, onVulkan *core.Tensor, err error) {
	own, err = core.Empty(ctx, x.device, core.TypeInt32, []int64{binaryWords}, exchange.AllocFor(x.device, x.vulkan))
	if err != nil {
		return nil, nil, err
	}
	onVulkan, _, err = exchange.To(ctx, own, x.vulkan, exchange.Options{Copy: exchange.Never})
	return own, onVulkan, err
}

// fillSlowly enqueues copies to t, a tensor of Vulkan, that take a while. The last one is of the numbers
// from first on.
func fillSlowly(ctx context.Context, s core.Stream, t *core.Tensor, first int32) error {
	d := t.Device()
	list := make([]int32, binaryWords)
	for i := range int32(4) {
		for k := range list {
			list[k] = first + int32(k) + 3 - i
		}
		from, err := core.FromSlice(list, binaryWords)
		if err != nil {
			return err
		}
		there, err := core.Empty(ctx, d, core.TypeInt32, []int64{binaryWords}, core.AllocOptions{})
		if err == nil {
			err = errors.Join(d.Copy(ctx, nil, there, from), d.Copy(ctx, s, t, there), there.Close(), from.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func sendBinary() error {
	ctx := context.Background()
	x, err := openVulkanCard(ctx)
	if err != nil {
		return err
	}
	c, err := inherited(x.devices())
	if err != nil {
		return err
	}
	_, t, err := x.shared(ctx)
	if err != nil {
		return err
	}
	s, err := x.vulkan.NewStream(ctx)
	if err != nil {
		return err
	}
	for round := int32(0); ; round++ { // until it is killed, or the peer has ended
		err := t.WaitIdle(ctx)
		if err == nil {
			err = fillSlowly(ctx, s, t, round)
		}
		if err == nil {
			_, err = c.SendLabeled(ctx, t, fmt.Sprint(round))
		}
		if err != nil {
			return err
		}
	}
}

// receiveBinary receives a tensor, and enqueues a copy of it.
func receiveBinary(t *testing.T, c *Conn, x vulkanCard, s core.Stream) (y, z *core.Tensor, r Report) {
	t.Helper()
	y, r = receive(t, c, x.vulkan)
	z, err := core.Empty(t.Context(), x.vulkan, core.TypeInt32, []int64{binaryWords}, core.AllocOptions{})
	if err == nil {
		t.Cleanup(func() { z.Close() })
		err = x.vulkan.Copy(t.Context(), s, z, y)
	}
	if err != nil {
		t.Fatal(err)
	}
	return y, z, r
}

// Vulkan of one process waits for that of another one by binary semaphores, each of which serves one tensor.
func TestBinarySemaphoresOrderTwoProcesses(t *testing.T) {
	x := newVulkanCard(t)
	c, _ := start(t, childBinary, of(x.devices()...))
	s := newStream(t, x.vulkan)
	waits := map[stream.Wait]int{}
	got := make([]int32, binaryWords)
	// Work may have ended before it is received: on a busy machine it takes more rounds.
	for n := 0; n < 8 || n < 500 && waits[stream.SemaphoreWait] == 0; n++ {
		y, z, r := receiveBinary(t, c, x, s)
		if r.BytesCopied != 0 {
			t.Fatalf("%v", r)
		}
		waits[r.Wait]++
		y.Close()
		into, err := core.FromSlice(got, binaryWords)
		if err == nil {
			err = x.vulkan.Copy(t.Context(), nil, into, z)
		}
		if err != nil {
			t.Fatal(err)
		}
		into.Close()
		z.Close()
		first, err := strconv.Atoi(r.Label)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			if v != int32(first+i) {
				t.Fatalf("element %d is %d, want %d; received: %v", i, v, first+i, r)
			}
		}
		c.mu.Lock()
		open := len(c.semaphores)
		c.mu.Unlock()
		if open > 2 { // the next one may be there, and the last one not yet forgotten
			t.Errorf("%d semaphores are open", open)
		}
	}
	if waits[stream.SemaphoreWait] == 0 || waits[stream.HostWait] != 0 {
		t.Errorf("waits: %v", waits)
	}
}

// A process whose peer is killed releases its device from a binary semaphore.
func TestABinarySemaphoreOfAKilledProcess(t *testing.T) {
	x := newVulkanCard(t)
	before := coretest.Descriptors()
	waited := false
	for n := 0; n < 5 || n < 100 && !waited; n++ {
		t.Run("", func(t *testing.T) {
			c, child := start(t, childBinary, of(x.devices()...))
			s := newStream(t, x.vulkan)
			_, z, r := receiveBinary(t, c, x, s)
			if err := child.Kill(); err != nil {
				t.Fatal(err)
			}
			<-c.Done()
			if err := s.Synchronize(t.Context()); err != nil {
				t.Error(err)
			}
			if err := z.WaitReady(t.Context()); err != nil && !errors.As(err, new(*ConnError)) {
				t.Errorf("reading gives %v", err)
			}
			waited = waited || r.Wait == stream.SemaphoreWait
		})
	}
	if !waited {
		t.Error("the device never waited")
	}
	coretest.WantDescriptors(t, before, "afterwards")
}
