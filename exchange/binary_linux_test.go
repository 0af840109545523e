//go:build linux && cgo && vulkan

package exchange_test

import (
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// binaryPair opens a Vulkan device twice. It skips the test with a driver whose devices share no binary semaphores.
func binaryPair(t *testing.T) (a, b core.Device) {
	t.Helper()
	for _, d := range []*core.Device{&a, &b} {
		registry := all.New()
		backend, err := registry.Backend("vulkan")
		if err != nil {
			t.Fatal(err)
		}
		coretest.NeedDriver(t, backend.Probe(t.Context()).Reason, "a driver for Vulkan")
		opened, err := registry.Open(t.Context(), core.DeviceID{Type: core.DeviceVulkan})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := opened.Close(); err != nil {
				t.Error(err)
			}
		})
		*d = opened
	}
	p := a.Properties()
	if x, ok := core.As[core.SemaphoreExporter](a); !ok || !slices.Contains(x.SemaphoreExportTypes(), core.HandleBinaryFD) {
		t.Skipf("%s shares no binary semaphores, or dlx uses its timelines", p.Driver)
	}
	return a, b
}

// liveSemaphores is how many semaphores of Vulkan are open. The two sides of a shared one count for themselves.
func liveSemaphores() int64 { return core.Live()["vulkan.Semaphore"] }

// unfinished enqueues copies to x that take a while. The last one is of the content that is returned.
func unfinished(t *testing.T, d core.Device, s core.Stream, x *core.Tensor, from []*core.Tensor, round int) (content int) {
	t.Helper()
	for i := range 4 {
		content = (round + i) % len(from)
		if err := d.Copy(t.Context(), s, x, from[content]); err != nil {
			t.Fatal(err)
		}
	}
	return content
}

// Tensors go from one device to the other and back while the work that writes them is unfinished, and the host waits for
// none of it: the streams wait for each other on the device, by two semaphores that are used again and again.
func TestBinarySemaphoresOrderVulkanDevicesInBothDirections(t *testing.T) {
	a, b := binaryPair(t)
	onA, onB := newStream(t, a), newStream(t, b)
	const n = 4 << 20
	values := [3][]int32{}
	var contents []*core.Tensor
	for k := range values {
		values[k] = make([]int32, n)
		for i := range values[k] {
			values[k][i] = int32(i) ^ int32(k+1)<<24
		}
		x := numbered(t, a, core.AllocOptions{}, n)
		defer x.Close()
		write(t, a, x, values[k])
		contents = append(contents, x)
	}
	there := numbered(t, a, core.AllocOptions{Export: core.HandleOpaqueFD}, n)
	defer there.Close()
	back := numbered(t, b, core.AllocOptions{Export: core.HandleOpaqueFD}, n)
	defer back.Close()
	result := numbered(t, a, core.AllocOptions{}, n)
	defer result.Close()

	before := liveSemaphores()
	waits := map[string]map[stream.Wait]int{"there": {}, "back": {}}
	for round := range 16 {
		content := unfinished(t, a, onA, there, contents, round)
		onTheOther, report := to(t, there, b, exchange.Options{Copy: exchange.Never, Stream: onB, SourceStream: onA})
		waits["there"][report.Wait]++
		if err := b.Copy(t.Context(), onB, back, onTheOther); err != nil {
			t.Fatal(err)
		}
		returned, report := to(t, back, a, exchange.Options{Copy: exchange.Never, Stream: onA, SourceStream: onB})
		waits["back"][report.Wait]++
		if err := a.Copy(t.Context(), onA, result, returned); err != nil {
			t.Fatal(err)
		}
		if have := read(t, a, result); !slices.Equal(have, values[content]) {
			t.Fatalf("round %d: a device read before the other one had written; waits: %v", round, waits)
		}
	}
	for direction, w := range waits {
		// Work may have ended before it was handed over, and then nothing waits.
		if w[stream.SemaphoreWait] == 0 || w[stream.SemaphoreWait]+w[stream.NoWait] != 16 {
			t.Errorf("%s: %v, want only waits for semaphores", direction, w)
		}
	}
	// A semaphore may be busy when the next round begins, though its wait is over: the event behind the wait comes later.
	if made := liveSemaphores() - before; made < 4 || made > 8 {
		t.Errorf("%d semaphores are open for two directions, want 4: each has two sides", made)
	}
}

// While a binary semaphore is in use, the next handoff takes another one.
func TestEveryUnfinishedHandoffHasABinarySemaphore(t *testing.T) {
	a, b := binaryPair(t)
	onA, onB := newStream(t, a), newStream(t, b)
	const n, tensors = 4 << 20, 6
	sources := []*core.Tensor{numbered(t, a, core.AllocOptions{}, n)}
	defer sources[0].Close()
	var received []*core.Tensor
	before, waited := liveSemaphores(), 0
	for range tensors {
		x, err := core.Empty(t.Context(), a, core.TypeInt32, []int64{n}, core.AllocOptions{Export: core.HandleOpaqueFD})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		unfinished(t, a, onA, x, sources, 0)
		shared, report := to(t, x, b, exchange.Options{Copy: exchange.Never, Stream: onB, SourceStream: onA})
		switch report.Wait {
		case stream.SemaphoreWait:
			waited++
		case stream.NoWait:
		default:
			t.Errorf("the wait is %v", report.Wait)
		}
		out, err := core.Empty(t.Context(), b, core.TypeInt32, []int64{n}, core.AllocOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		if err := b.Copy(t.Context(), onB, out, shared); err != nil {
			t.Fatal(err)
		}
		received = append(received, out)
	}
	made := liveSemaphores() - before
	want := read(t, a, sources[0])
	for i, x := range received {
		if !slices.Equal(read(t, b, x), want) {
			t.Errorf("tensor %d was read before it was written", i)
		}
	}
	if waited == 0 || made < 2 || made > 2*tensors {
		t.Errorf("%d handoffs waited, and %d sides of semaphores are open", waited, made)
	}
}
