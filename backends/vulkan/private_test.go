//go:build vulkan && linux && cgo

package vulkan

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/vkqueues"
)

// useQueues makes devices have at least two private queues until the test ends, if the driver's have fewer.
func useQueues(t testing.TB) {
	t.Helper()
	d := open(t)
	several := inner(d).driver.Others() >= 2
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if !several {
		vkqueues.Use(t)
	}
}

func TestConformanceWithSeveralQueues(t *testing.T) {
	partOfBoth(t)
	useQueues(t)
	backendtest.Run(t, func(tb testing.TB) core.Device { return open(tb) }, backendtest.Options{Variant: 1, Variants: 4})
}

func TestConformanceWithSeveralQueuesOfSeparateMemory(t *testing.T) {
	useQueues(t)
	backendtest.Run(t, func(tb testing.TB) core.Device { return open(tb, separateMemory) }, backendtest.Options{Variant: 2, Variants: 4})
}

func TestRandomProgramsWithSeveralQueuesAgreeWithTheHost(t *testing.T) {
	useQueues(t)
	backendtest.Programs(t, func(tb testing.TB) core.Device { return open(tb, separateMemory) }, 300, backendtest.Options{})
}

// queueUser has a device with private queues, on which copies between its tensors are work of the device.
type queueUser struct {
	testing.TB
	device  core.Device
	private int // queues
	ctx     context.Context
	gates   []*semaphore
}

const tensorBytes = 100_000

func newQueueUser(t testing.TB) *queueUser {
	t.Helper()
	useQueues(t)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	d := opened(t, separateMemory)
	t.Cleanup(cancel)
	private := inner(d).driver.Others()
	if private < 2 {
		t.Fatalf("the device has %d private queues", private)
	}
	return &queueUser{TB: t, device: d, ctx: ctx, private: private}
}

func (u *queueUser) must(errs ...error) {
	u.Helper()
	for _, err := range errs {
		if err != nil {
			for _, s := range u.gates { // else no stream could be closed
				_ = inner(u.device).driver.Signal(s.timeline, farthest)
			}
			u.Fatal(err)
		}
	}
}

// stream makes a stream, which must have no errors at the end.
func (u *queueUser) stream() *queue {
	u.Helper()
	s, err := u.device.NewStream(u.ctx)
	u.must(err)
	u.Cleanup(func() {
		if err := s.Close(); err != nil {
			u.Error(err)
		}
	})
	return s.(*queue)
}

// semaphore makes a semaphore that outlives the streams that are made afterwards.
func (u *queueUser) semaphore() *semaphore {
	u.Helper()
	s, err := u.device.(core.SemaphoreCreator).NewSemaphore(u.ctx, 0)
	u.must(err)
	u.Cleanup(func() {
		if err := s.Close(); err != nil {
			u.Error(err)
		}
	})
	u.gates = append(u.gates, s.(*semaphore))
	return s.(*semaphore)
}

// tensor makes a tensor with a pattern.
func (u *queueUser) tensor(seed int) *core.Tensor {
	u.Helper()
	x := row(u, u.device, tensorBytes, core.AllocOptions{})
	put(u, u.device, x, pattern(tensorBytes, uint64(seed)))
	return x
}

func (u *queueUser) copy(q *queue, dst, src *core.Tensor) {
	u.Helper()
	u.must(u.device.Copy(u.ctx, q, dst, src))
}

func (u *queueUser) want(x *core.Tensor, seed int) {
	u.Helper()
	if !bytes.Equal(get(u, u.device, x), pattern(tensorBytes, uint64(seed))) {
		u.Errorf("the tensor does not have pattern %d", seed)
	}
}

// wantWaits checks whether a goroutine works for a stream, which waits either in a private queue or on the host.
func (u *queueUser) wantWaits(q *queue, inPrivate bool) {
	u.Helper()
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if q.Holding() == inPrivate || inPrivate && q.on == 0 {
		u.Errorf("a goroutine waits: %v, VkQueue %d; want a wait on the device: %v", q.Holding(), q.on, inPrivate)
	}
}

func TestAStreamWaitsInAPrivateQueue(t *testing.T) {
	u := newQueueUser(t)
	gate := u.semaphore()
	waits, follows, free := u.stream(), u.stream(), u.stream()
	a, b, c := u.tensor(1), u.tensor(2), u.tensor(3)
	d, e := u.tensor(4), u.tensor(5)
	u.must(gate.WaitOn(waits, 1))
	u.copy(waits, b, a)
	u.copy(follows, c, b) // behind the work in the private queue of another stream
	u.wantWaits(waits, true)
	u.wantWaits(follows, true)
	u.copy(free, e, d) // the others do not hold it up
	u.must(free.Synchronize(u.ctx))
	u.want(e, 4)
	if done, _ := b.Ready().Done(); done {
		t.Error("work is done that waits for a value that nobody has set")
	}
	u.must(gate.Signal(free, 1), follows.Synchronize(u.ctx))
	u.want(c, 1)
	u.must(waits.Synchronize(u.ctx))
	u.copy(waits, a, e) // back in the first VkQueue
	u.must(waits.Synchronize(u.ctx))
	u.want(a, 4)
	if waits.on != 0 || waits.private != nil {
		t.Errorf("a stream without a wait stays in VkQueue %d", waits.on)
	}
}

// What a stream does in the first VkQueue comes before what it does in a private queue.
func TestAPrivateQueueComesAfterTheFirstOne(t *testing.T) {
	u := newQueueUser(t)
	gate := u.semaphore()
	q, busy := u.stream(), u.stream()
	large := [2]*core.Tensor{row(t, u.device, 32<<20, core.AllocOptions{}), row(t, u.device, 32<<20, core.AllocOptions{})}
	a, b, c := u.tensor(1), u.tensor(2), u.tensor(3)
	for range 10 { // the first VkQueue has work for a while
		u.copy(busy, large[0], large[1])
	}
	u.copy(q, b, a)
	u.must(gate.WaitOn(q, 1))
	u.copy(q, c, b)
	u.wantWaits(q, true)
	u.must(inner(u.device).driver.Signal(gate.timeline, 1), q.Synchronize(u.ctx), busy.Synchronize(u.ctx))
	u.want(c, 1)
}

// Streams that find no private queue wait on the host, and no order of the signals holds anybody up.
func TestMoreStreamsWaitThanThereArePrivateQueues(t *testing.T) {
	u := newQueueUser(t)
	n := u.private + 2
	gates := make([]*semaphore, n)
	for i := range gates {
		gates[i] = u.semaphore()
	}
	helper, last := u.stream(), u.stream()
	streams := make([]*queue, n)
	from, to := make([]*core.Tensor, n), make([]*core.Tensor, n)
	for i := range streams {
		streams[i], from[i], to[i] = u.stream(), u.tensor(i), u.tensor(100)
	}
	for round := range uint64(3) {
		for i, q := range streams {
			u.must(gates[i].WaitOn(q, round+1))
			u.copy(q, to[i], from[i])
			u.wantWaits(q, i < u.private)
		}
		u.copy(last, from[0], to[0]) // no private queue is left for this
		for i := range streams {
			u.must(gates[len(gates)-1-i].Signal(helper, round+1))
		}
		for i, q := range streams {
			u.must(q.Synchronize(u.ctx))
			u.want(to[i], i)
		}
		u.must(last.Synchronize(u.ctx))
	}
}

// Each stream waits for what the other one signals later.
func TestStreamsInPrivateQueuesWaitForEachOther(t *testing.T) {
	u := newQueueUser(t)
	x, y := u.semaphore(), u.semaphore()
	a, b := u.stream(), u.stream()
	for round := range uint64(20) {
		u.must(x.WaitOn(a, round+1), y.Signal(a, round+1))
		if round%2 == 0 {
			u.must(x.Signal(b, round+1), y.WaitOn(b, round+1))
		} else {
			u.must(x.Signal(b, round+1), a.Wait(nil), y.WaitOn(b, round+1))
		}
	}
	u.must(a.Synchronize(u.ctx), b.Synchronize(u.ctx))
}

// A value that is submitted to a private queue comes before a larger one of a stream that does not wait.
func TestValuesOfASemaphoreAreSetInOrderAcrossQueues(t *testing.T) {
	u := newQueueUser(t)
	gate, counter := u.semaphore(), u.semaphore()
	held, next, helper := u.stream(), u.stream(), u.stream()
	u.must(gate.WaitOn(held, 1), counter.Signal(held, 1), counter.Signal(next, 2))
	u.wantWaits(held, true)
	u.wantWaits(next, true)
	u.must(helper.Synchronize(u.ctx))
	if v, err := counter.Value(); v != 0 || err != nil {
		t.Errorf("the value is %d, %v, while the first signal is held", v, err)
	}
	u.must(gate.Signal(helper, 1), next.Synchronize(u.ctx), held.Synchronize(u.ctx))
	if v, err := counter.Value(); v != 2 || err != nil {
		t.Errorf("the value is %d, %v; want 2", v, err)
	}
	// Without a private queue, the host sets it.
	for range u.private - 1 {
		u.must(gate.WaitOn(u.stream(), 2))
	}
	u.must(gate.WaitOn(held, 2), counter.Signal(held, 3), counter.Signal(next, 4))
	u.wantWaits(next, false)
	u.must(gate.Signal(helper, 2), next.Synchronize(u.ctx))
	if v, err := counter.Value(); v != 4 || err != nil {
		t.Errorf("the value is %d, %v; want 4", v, err)
	}
}

func TestCloseOfASemaphoreEndsWaitsInPrivateQueues(t *testing.T) {
	u := newQueueUser(t)
	a, b := u.stream(), u.stream()
	x, y, z := u.tensor(1), u.tensor(2), u.tensor(3)
	s := u.semaphore()
	u.must(s.WaitOn(a, 1), s.WaitOn(b, 3))
	u.copy(a, y, x)
	u.must(s.Close())
	wantError(t, a.Synchronize(u.ctx), core.ErrClosed, "a wait for a semaphore that was closed")
	wantError(t, b.Synchronize(u.ctx), core.ErrClosed, "a wait for a larger value")

	// Another API may still set the value of a shared one.
	s = u.semaphore()
	s.shared = true
	u.must(s.WaitOn(a, 1))
	u.copy(a, z, x)
	e, err := a.Record()
	u.must(err, s.Close())
	if done, err := e.Done(); done {
		t.Fatalf("the wait ended with the semaphore: %v", err)
	}
	u.must(inner(u.device).driver.Signal(s.timeline, 1), a.Synchronize(u.ctx))
}

// A driver need not take a wait for a value that is far away.
func TestAFarValueIsWaitedForOnTheHost(t *testing.T) {
	u := newQueueUser(t)
	s, q, helper := u.semaphore(), u.stream(), u.stream()
	u.must(s.WaitOn(q, farthest+1))
	u.wantWaits(q, false)
	u.must(s.Signal(helper, 1), helper.Synchronize(u.ctx), s.Signal(helper, farthest+1), q.Synchronize(u.ctx))
}

// Tensors are copied back and forth by streams some of which wait. The result is that of the same copies one after the
// other.
func TestCopiesInPrivateQueuesKeepTheirOrder(t *testing.T) {
	u := newQueueUser(t)
	const streams, tensors, steps = 6, 8, 400
	random := rand.New(rand.NewPCG(1, 2))
	gate, helper := u.semaphore(), u.stream()
	var on [streams]*queue
	for i := range on {
		on[i] = u.stream()
	}
	var all [tensors]*core.Tensor
	var want [tensors]int
	for i := range all {
		all[i], want[i] = u.tensor(i), i
	}
	var set, waited uint64
	for range steps {
		q := on[random.IntN(streams)]
		switch random.IntN(6) {
		case 0:
			waited = max(waited, set+1)
			u.must(gate.WaitOn(q, waited))
		case 1:
			if set < waited {
				set = waited
				u.must(gate.Signal(helper, set))
			}
		default:
			to, from := random.IntN(tensors), random.IntN(tensors)
			if to != from {
				u.copy(q, all[to], all[from])
				want[to] = want[from]
			}
		}
	}
	if set < waited {
		u.must(gate.Signal(helper, waited))
	}
	for _, q := range on {
		u.must(q.Synchronize(u.ctx))
	}
	for i, x := range all {
		u.want(x, want[i])
	}
}
