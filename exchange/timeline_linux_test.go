//go:build linux && cgo && cuda && vulkan

package exchange_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
	"github.com/dlx-go/dlx/internal/testing/vkqueues"
	"github.com/dlx-go/dlx/stream"
)

// followed stands for a timeline semaphore that Vulkan exports, which lavapipe cannot: a
// real one of Vulkan, and one that CUDA imports, each of which follows the other.
type followed struct {
	core.Semaphore // Vulkan's
	timeline       *gpusim.Timeline
	helper         core.Stream // of Vulkan
	followers      *sync.WaitGroup
}

// Signal has the timeline follow.
func (x followed) Signal(s core.Stream, value uint64) error {
	err := x.Semaphore.Signal(s, value)
	if err == nil {
		x.followers.Go(func() {
			if x.Wait(context.Background(), value) == nil {
				_ = x.timeline.Signal(value) // that it failed shows in a wait that does not end
			}
		})
	}
	return err
}

// WaitOn has Vulkan's semaphore follow.
func (x followed) WaitOn(s core.Stream, value uint64) error {
	err := x.Semaphore.WaitOn(s, value)
	if err == nil {
		x.followers.Go(func() {
			if x.timeline.Wait(value, time.Minute) == nil {
				_ = x.Semaphore.Signal(x.helper, value)
			}
		})
	}
	return err
}

// crossing is a card that CUDA and Vulkan have in common.
type crossing struct {
	sim          *gpusim.Simulator
	cuda, vulkan core.Device
	followers    sync.WaitGroup
}

// shared makes a semaphore as both sides know it.
func (c *crossing) shared(t *testing.T) (cuda, vulkan core.Semaphore) {
	t.Helper()
	timeline, err := c.sim.NewTimeline()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(timeline.FD) })
	cuda, err = c.cuda.(core.SemaphoreImporter).ImportSemaphore(t.Context(), core.ExternalSemaphore{
		Handle: coretest.HandleOf(t, core.HandleOpaqueFD, timeline.FD), DeviceUUID: c.cuda.Properties().UUID,
	})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := c.vulkan.(core.SemaphoreCreator).NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return cuda, followed{inner, timeline, newStream(t, c.vulkan), &c.followers}
}

func newCrossing(t *testing.T) *crossing {
	t.Helper()
	registry := all.New()
	backend, err := registry.Backend("cuda")
	if err != nil {
		t.Fatal(err)
	}
	coretest.NeedDriver(t, backend.Probe(t.Context()).Reason, "NVIDIA's driver, or name the simulated one (make gpusim)")
	c := new(crossing)
	if c.sim, err = gpusim.Open(); err != nil {
		t.Skip("a card's Vulkan exports semaphores itself: ", err)
	}
	for _, x := range []struct {
		id core.DeviceID
		d  *core.Device
	}{{core.DeviceID{Type: core.DeviceCUDA}, &c.cuda}, {core.DeviceID{Type: core.DeviceVulkan}, &c.vulkan}} {
		d, err := registry.Open(t.Context(), x.id)
		if err != nil {
			t.Fatal(err)
		}
		*x.d = d
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return c
}

// One buffer goes to Vulkan and back, again and again, and the host waits for nothing:
// while CUDA's work is held back, all of a round is enqueued.
func TestATimelineOrdersCUDAAndVulkanInBothDirections(t *testing.T) {
	ordersBothWays(t, newCrossing(t))
}

// Vulkan waits on the device, as far as that device shows it.
func TestATimelineOrdersCUDAAndVulkanWithSeveralQueues(t *testing.T) {
	vkqueues.Use(t)
	c := newCrossing(t)
	if n := c.vulkan.Properties().Queues; n < 2 {
		t.Fatalf("the device has %d queues", n)
	}
	ordersBothWays(t, c)
}

func ordersBothWays(t *testing.T, c *crossing) {
	t.Helper()
	onCUDA, onVulkan := newStream(t, c.cuda), newStream(t, c.vulkan)
	signal, wait := c.shared(t)
	there := stream.NewSharedSemaphore(signal, wait)
	back, vulkanSignals := c.shared(t)
	home := stream.NewSharedSemaphore(vulkanSignals, back)
	defer func() {
		c.followers.Wait()
		for _, l := range []*stream.SharedSemaphore{there, home} {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}()

	const n = 4096
	buffer := numbered(t, c.cuda, exchange.AllocFor(c.cuda, c.vulkan), 2, n)
	defer buffer.Close()
	shared, report := to(t, buffer, c.vulkan, exchange.Options{Copy: exchange.Never})
	if report.BytesCopied != 0 {
		t.Fatalf("%d bytes were copied", report.BytesCopied)
	}
	row := func(x *core.Tensor, i int64) *core.Tensor {
		v, err := x.Slice(0, i, i+1, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = v.Close() })
		return v
	}
	first, last := row(buffer, 0), row(buffer, 1)
	vulkanFirst, vulkanLast := row(shared, 0), row(shared, 1)

	var blocked int
	for round := range int32(50) {
		values, got := make([]int32, n), make([]int32, n)
		for i := range values {
			values[i] = round*n + int32(i)
		}
		staged, err := core.Empty(t.Context(), c.cuda, core.TypeInt32, []int64{1, n}, core.AllocOptions{})
		if err != nil {
			t.Fatal(err)
		}
		write(t, c.cuda, staged, values)
		c.sim.Hold(true)
		if err := c.cuda.Copy(t.Context(), onCUDA, first, staged); err != nil {
			t.Fatal(err)
		}
		how, err := there.Handoff(t.Context(), buffer, onCUDA, onVulkan)
		if err != nil || how != stream.SemaphoreWait {
			t.Fatalf("round %d, to Vulkan: %v, %v", round, how, err)
		}
		if err := c.vulkan.Copy(t.Context(), onVulkan, vulkanLast, vulkanFirst); err != nil {
			t.Fatal(err)
		}
		if how, err = home.Handoff(t.Context(), shared, onVulkan, onCUDA); err != nil || how != stream.SemaphoreWait {
			t.Fatalf("round %d, to CUDA: %v, %v", round, how, err)
		}
		result := slice(t, got, 1, n)
		if err := c.cuda.Copy(t.Context(), onCUDA, result, last); err != nil {
			t.Fatal(err)
		}
		if buffer.Ready() == nil {
			blocked++ // somebody has waited for what was held back
		}
		c.sim.Hold(false)
		if err := result.WaitReady(t.Context()); err != nil || !slices.Equal(got, values) {
			t.Fatalf("round %d: CUDA reads %v..., want %v... (%v)", round, got[:4], values[:4], err)
		}
		_ = staged.Close()
	}
	if blocked > 0 {
		t.Errorf("in %d rounds of 50 the host waited", blocked)
	}
}

// What CUDA will never signal, Vulkan signals itself when the card is lost.
func TestALostCUDADeviceDoesNotHoldVulkanUp(t *testing.T) { losesCUDA(t, newCrossing(t)) }

func TestALostCUDADeviceDoesNotHoldAVulkanQueueUp(t *testing.T) {
	vkqueues.Use(t)
	losesCUDA(t, newCrossing(t))
}

func losesCUDA(t *testing.T, c *crossing) {
	t.Helper()
	onCUDA, err := c.cuda.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	onVulkan := newStream(t, c.vulkan)
	link := stream.NewSharedSemaphore(c.shared(t))
	defer func() {
		c.followers.Wait()
		_ = link.Close()
	}()
	buffer := numbered(t, c.cuda, exchange.AllocFor(c.cuda, c.vulkan), 64)
	defer buffer.Close()
	shared, _ := to(t, buffer, c.vulkan, exchange.Options{Copy: exchange.Never})
	made, err := core.Empty(t.Context(), c.vulkan, core.TypeInt32, []int64{64}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	c.sim.Hold(true)
	defer c.sim.Hold(false)
	if err := c.cuda.Copy(t.Context(), onCUDA, buffer, slice(t, make([]int32, 64))); err != nil {
		t.Fatal(err)
	}
	if how, err := link.Handoff(t.Context(), buffer, onCUDA, onVulkan); err != nil || how != stream.SemaphoreWait {
		t.Fatal(how, err)
	}
	if err := c.vulkan.Copy(t.Context(), onVulkan, made, shared); err != nil {
		t.Fatal(err)
	}
	c.sim.Lose(0)
	if err := onVulkan.Synchronize(t.Context()); err != nil {
		t.Errorf("Vulkan: %v", err)
	}
	if err := made.WaitReady(t.Context()); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("what Vulkan made of what CUDA never wrote: %v", err)
	}
	if err := buffer.WaitReady(t.Context()); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("what CUDA never wrote: %v", err)
	}
	_ = onCUDA.Close()
}

// What CUDA's stream waited for, another card was to write: no semaphore tells of its loss.
func TestALinkTellsOfAThirdDevice(t *testing.T) {
	c := newCrossing(t)
	second, err := all.New().Open(t.Context(), core.DeviceID{Type: core.DeviceCUDA, Index: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	onSecond, err := second.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	onCUDA, onVulkan := newStream(t, c.cuda), newStream(t, c.vulkan)
	link := stream.NewSharedSemaphore(c.shared(t))
	defer func() {
		c.followers.Wait()
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	}()
	buffer := numbered(t, c.cuda, exchange.AllocFor(c.cuda, c.vulkan), 64)
	defer buffer.Close()
	there := numbered(t, second, core.AllocOptions{}, 64)
	defer there.Close()
	c.sim.Hold(true)
	defer c.sim.Hold(false)
	err = errors.Join(
		c.cuda.Copy(t.Context(), onCUDA, buffer, slice(t, make([]int32, 64))),
		second.Copy(t.Context(), onSecond, there, slice(t, make([]int32, 64))))
	if err == nil {
		err = onCUDA.Wait(there.Ready())
	}
	if err != nil {
		t.Fatal(err)
	}
	if how, err := link.Handoff(t.Context(), buffer, onCUDA, onVulkan); err != nil || how != stream.SemaphoreWait {
		t.Fatal(how, err)
	}
	c.sim.Lose(1)
	c.sim.Hold(false)
	if err := onVulkan.Synchronize(t.Context()); err != nil {
		t.Errorf("Vulkan: %v", err)
	}
	if err := buffer.WaitReady(t.Context()); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("what was handed over: %v", err)
	}
	_ = onSecond.Close()
}

// Memory that is used by work behind a handover is used again behind it, in the same stream.
func TestWhatWasHandedOverHoldsNoPoolUp(t *testing.T) {
	c := newCrossing(t)
	onCUDA, other, onVulkan := newStream(t, c.cuda), newStream(t, c.cuda), newStream(t, c.vulkan)
	there := stream.NewSharedSemaphore(c.shared(t))
	back, vulkanSignals := c.shared(t)
	home := stream.NewSharedSemaphore(vulkanSignals, back)
	defer func() {
		c.followers.Wait()
		if err := errors.Join(there.Close(), home.Close()); err != nil {
			t.Error(err)
		}
	}()
	buffer := numbered(t, c.cuda, exchange.AllocFor(c.cuda, c.vulkan), 64)
	defer buffer.Close()
	c.sim.Hold(true)
	defer c.sim.Hold(false)
	if err := c.cuda.Copy(t.Context(), onCUDA, buffer, slice(t, make([]int32, 64))); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		l        *stream.SharedSemaphore
		from, to core.Stream
	}{{there, onCUDA, onVulkan}, {home, onVulkan, onCUDA}} {
		if how, err := x.l.Handoff(t.Context(), buffer, x.from, x.to); err != nil || how != stream.SemaphoreWait {
			t.Fatal(how, err)
		}
	}
	if err := other.Wait(buffer.Ready()); err != nil {
		t.Errorf("another stream of CUDA waits: %v", err)
	}
	addresses := map[uintptr]bool{}
	for range 10 {
		x, err := core.Empty(t.Context(), c.cuda, core.TypeInt32, []int64{64}, core.AllocOptions{Stream: onCUDA})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := x.Buffer()
		addresses[b.Memory().Handle] = true
		if err := errors.Join(c.cuda.Copy(t.Context(), onCUDA, x, buffer), x.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if len(addresses) != 1 {
		t.Errorf("ten tensors of one stream took %d blocks", len(addresses))
	}
}

// Vulkan is still to write what was handed over to a card that is lost: nobody gets the memory before.
func TestMemoryIsNotFreeWhileItsFirstDeviceWrites(t *testing.T) {
	c := newCrossing(t)
	onVulkan, helper := newStream(t, c.vulkan), newStream(t, c.vulkan)
	onCUDA, err := c.cuda.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	back, vulkanSignals := c.shared(t)
	home := stream.NewSharedSemaphore(vulkanSignals, back)
	gate, err := c.vulkan.(core.SemaphoreCreator).NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	x, err := core.Empty(t.Context(), c.vulkan, core.TypeInt32, []int64{64}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	src := numbered(t, c.vulkan, core.AllocOptions{}, 64)
	defer src.Close()
	if err := errors.Join(gate.WaitOn(onVulkan, 1), c.vulkan.Copy(t.Context(), onVulkan, x, src)); err != nil {
		t.Fatal(err)
	}
	wrote := x.Ready()
	if how, err := home.Handoff(t.Context(), x, onVulkan, onCUDA); err != nil || how != stream.SemaphoreWait {
		t.Fatal(how, err)
	}
	c.sim.Lose(0)
	for range 50 { // the loss gets about
		if done, err := x.Ready().Done(); done {
			t.Fatalf("the tensor counts as unused: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
	if err := errors.Join(gate.Signal(helper, 1), wrote.Wait(t.Context())); err != nil {
		t.Error(err)
	}
	if err := x.WaitReady(t.Context()); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("afterwards: %v", err)
	}
	_ = x.Close()
	c.followers.Wait()
	_, _, _ = home.Close(), gate.Close(), onCUDA.Close()
}
