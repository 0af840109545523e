//go:build cuda && linux && cgo

package cuda

import (
	"maps"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

// callsOf returns which functions of the driver f calls, and how often in all.
func callsOf(sim *gpusim.Simulator, f func()) (calls map[string]int, total int) {
	before := sim.Calls()
	f()
	calls = sim.Calls()
	for name, n := range before {
		if calls[name] -= n; calls[name] == 0 {
			delete(calls, name)
		}
	}
	for _, n := range calls {
		total += n
	}
	return calls, total
}

// smallCopies calls f with small copies of each kind.
func smallCopies(t *testing.T, d core.Device, f func(name string, dst, src *core.Tensor)) {
	empty := func(o core.AllocOptions) *core.Tensor { return row(t, d, 4096, o) }
	a, b, pinned := empty(core.AllocOptions{}), empty(core.AllocOptions{}), empty(core.AllocOptions{Type: core.DeviceCUDAHost})
	pageable := keep(t)(core.FromSlice(pattern(4096, 1)))
	f("pinned to device", a, pinned)
	f("device to device", a, b)
	f("device to pinned", pinned, a)
	f("pageable to device", a, pageable)
}

// most is how many calls of the driver each kind of copy makes: the context is pushed and popped, the capture mode of
// the thread is changed and restored, the stream is asked whether it is captured, the copy is enqueued and an event
// recorded. For memory that is not pinned there are seven sequences: a look at the memory, two at the events of staging
// memory, a check, a host function, the copy, and the event.
var most = map[string]int{"pinned to device": 7, "device to device": 7, "device to pinned": 7, "pageable to device": 35}

// report fails the test if there were more calls than that.
func report(t *testing.T, name string, calls map[string]int, total, n, most int) {
	t.Helper()
	t.Logf("%s: %.1f calls", name, float64(total)/float64(n))
	if total > most*n {
		t.Errorf("%s: %d calls, want at most %d:", name, total, most*n)
		for _, call := range slices.Sorted(maps.Keys(calls)) {
			t.Errorf("  %4d %s", calls[call], call)
		}
	}
}

// A small copy on a stream makes few calls of the driver, and one call from Go.
func TestCallsOfASmallCopy(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	s := newStream(t, d)
	smallCopies(t, d, func(name string, dst, src *core.Tensor) {
		all, total := make(map[string]int), 0
		const n = 20
		for i := range n + 1 {
			calls, more := callsOf(sim, func() {
				if err := d.Copy(t.Context(), s, dst, src); err != nil {
					t.Fatal(err)
				}
			})
			if err := s.Synchronize(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i == 0 { // makes an event, and staging memory
				continue
			}
			total += more
			for call, n := range calls {
				all[call] += n
			}
		}
		report(t, name, all, total, n, most[name])
	})
}

// Many small copies make as many calls of the driver as one.
func TestCallsOfABatch(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	s := newStream(t, d)
	const n = 1000
	smallCopies(t, d, func(name string, _, src *core.Tensor) {
		var dst, srcs []*core.Tensor
		for range n {
			dst, srcs = append(dst, row(t, d, 4096, core.AllocOptions{})), append(srcs, src)
		}
		put(t, d, dst[0], pattern(4096, 7))
		want := get(t, d, dst[0])
		if src.DeviceID().Type.HostAccessible() {
			want = onHost(t, d, src)
		} else {
			put(t, d, src, want)
		}
		for i := range 2 {
			calls, total := callsOf(sim, func() {
				if err := d.(core.BatchCopier).CopyBatch(t.Context(), s, dst, srcs); err != nil {
					t.Fatal(err)
				}
			})
			if err := s.Synchronize(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i > 0 { // before, staging memory and an event were made
				report(t, name, calls, total, 1, 40)
			}
		}
		for i, x := range dst {
			if !slices.Equal(get(t, d, x), want) {
				t.Fatalf("%s: tensor %d has other bytes", name, i)
			}
		}
	})
}

// onHost returns the bytes of a tensor in host memory.
func onHost(t *testing.T, d core.Device, src *core.Tensor) []byte {
	t.Helper()
	x := row(t, d, 4096, core.AllocOptions{})
	if err := d.Copy(t.Context(), nil, x, src); err != nil {
		t.Fatal(err)
	}
	return get(t, d, x)
}

// Record makes no call if it stands for the same work as the last one. Once the program has the driver's stream, it may
// enqueue work itself, for which Record has to stand too.
func TestRecordAgain(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	s := newStream(t, d)
	a, b := row(t, d, 5000, core.AllocOptions{}), row(t, d, 5000, core.AllocOptions{})
	record := func() (e core.Event, calls int) {
		_, calls = callsOf(sim, func() {
			var err error
			if e, err = s.Record(); err != nil {
				t.Fatal(err)
			}
		})
		return e, calls
	}
	if err := d.Copy(t.Context(), s, a, b); err != nil {
		t.Fatal(err)
	}
	first, calls := record()
	if calls != 0 {
		t.Errorf("Record after a copy makes %d calls", calls)
	}
	if again, calls := record(); again != first || calls != 0 {
		t.Errorf("a second Record makes %d calls, and another event: %v", calls, again != first)
	}
	if err := first.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	native := s.Native()
	sim.Hold(true)
	if err := failed(statusOf(libraryOf(t, d).context.Copy(addressOf(t, a), addressOf(t, b), 5000, native, 0))); err != nil {
		t.Fatal(err)
	}
	e, _ := record()
	if done, _ := e.Done(); done {
		t.Error("the event is done, and the work of the program is not")
	}
	sim.Hold(false)
	if err := e.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
