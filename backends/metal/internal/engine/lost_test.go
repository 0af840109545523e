package engine

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/backends/metal/internal/fake"
	"github.com/dlx-go/dlx/core"
)

// A command buffer that fails is an error of its work, of the work that read its result, and of the stream; after some
// codes the device is lost.
func TestACommandBufferThatFails(t *testing.T) {
	for _, c := range []struct {
		code int
		want error
		lost bool
	}{
		{driver.ErrInternal, core.ErrInvalid, false}, {driver.ErrTimeout, core.ErrInvalid, false},
		{driver.ErrPageFault, core.ErrInvalid, false}, {driver.ErrOutOfMemory, core.ErrOutOfMemory, false},
		{driver.ErrInvalidResource, core.ErrInvalid, false}, {driver.ErrNotPermitted, core.ErrNotSupported, false},
		{driver.ErrAccessRevoked, core.ErrDeviceLost, true}, {driver.ErrDeviceRemoved, core.ErrDeviceLost, true},
	} {
		v, b := machine(t, fake.Config{})
		d := open(t, b, 0).(*device)
		const n = 100 << 10
		x, y, z := row(t, d, n, core.AllocOptions{}), row(t, d, n, core.AllocOptions{}), row(t, d, n, core.AllocOptions{})
		content := pattern(n, 1)
		put(t, d, x, content)
		s, err := d.NewStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		other, err := d.NewStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v.Fail("Commit", 1, c.code)
		if err := d.Copy(t.Context(), s, y, x); err != nil {
			t.Fatal(err)
		}
		wantCode := func(err error, what string) {
			t.Helper()
			wantError(t, err, c.want, what)
			var typed *core.Error
			if errors.As(err, &typed) && typed.Code != int64(c.code) {
				t.Errorf("%s: code %d, want %d", what, typed.Code, c.code)
			}
		}
		err = d.Copy(t.Context(), other, z, y) // at once, or by its event
		if err == nil {
			err = z.WaitReady(t.Context())
		}
		wantCode(err, "the work that read the result")
		wantCode(y.WaitReady(t.Context()), "the work")
		wantCode(s.Synchronize(t.Context()), "Synchronize")
		if c.lost {
			_, err := d.NewStream(t.Context())
			wantCode(err, "NewStream of a lost device")
			_, err = d.Alloc(t.Context(), 1, core.AllocOptions{})
			wantCode(err, "Alloc of a lost device")
		} else {
			q := d.open1(t)
			if err := errors.Join(d.Copy(t.Context(), q, z, x), q.Synchronize(t.Context())); err != nil {
				t.Errorf("code %d: later work: %v", c.code, err)
			}
			if got := get(t, d, z); !bytes.Equal(got, content) {
				t.Errorf("code %d: later work wrote other bytes", c.code)
			}
			_ = q.Close()
		}
		for _, c := range []interface{ Close() error }{s, other, x, y, z} {
			_ = c.Close()
		}
		closeSoon(t, d)
	}
}

// open1 opens a stream.
func (d *device) open1(t *testing.T) core.Stream {
	t.Helper()
	q, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// closeSoon closes a device, whose memory may still wait for work.
func closeSoon(t *testing.T, d core.Device) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		err := d.Close()
		if err == nil {
			return
		}
		if !errors.Is(err, core.ErrInvalid) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// The host sets the value of a command buffer that failed, and by that never lowers the value of one that was committed as
// soon as the work was done.
func TestAfterAFailureTheValueOnlyGrows(t *testing.T) {
	d, v := device1(t, fake.Config{Delay: time.Millisecond})
	s := d.open1(t)
	_ = s.Native() // each Record commits a command buffer
	for range 100 {
		v.Fail("Commit", 1, driver.ErrPageFault)
		failed, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, failed.Wait(t.Context()), core.ErrInvalid, "the work that failed")
		if _, err := s.Record(); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, s.Close(), core.ErrInvalid, "Close")
}

// Nothing waits for ever if the command buffer that signals a semaphore fails.
func TestASignalThatFails(t *testing.T) {
	d, v := device1(t, fake.Config{})
	s, other := d.open1(t), d.open1(t)
	sem, err := d.NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := sem.WaitOn(other, 2); err != nil {
		t.Fatal(err)
	}
	v.Fail("Commit", 1, driver.ErrPageFault)
	if err := errors.Join(sem.Signal(s, 1), sem.Signal(s, 2), sem.Wait(t.Context(), 2)); err != nil {
		t.Error(err)
	}
	wantError(t, s.Synchronize(t.Context()), core.ErrInvalid, "the stream")
	if err := errors.Join(other.Synchronize(t.Context()), s.Close(), other.Close(), sem.Close()); err != nil {
		t.Error(err)
	}
}

// Work of a queue that dlx does not know of is done when an event of the stream is.
func TestAStreamOverAQueueOfAnotherLibrary(t *testing.T) {
	d, v := device1(t, fake.Config{Delay: 2 * time.Millisecond, InOrder: true})
	raw := v.NewCommandQueue(d.id, 64)
	theirs, ours := v.NewBuffer(d.id, 4096, driver.StorageShared), v.NewBuffer(d.id, 4096, driver.StorageShared)
	s, err := d.ImportStream(t.Context(), uintptr(raw))
	if err != nil {
		t.Fatal(err)
	}
	event := v.NewSharedEvent(d.id)
	sem, err := ImportSharedEvent(d, uintptr(event))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		done := make(chan struct{})
		v.Pool(func() { // another library copies and signals
			c := v.CommandBuffer(raw)
			e := v.BlitEncoder(c)
			v.CopyBuffer(e, theirs, 0, ours, 0, 4096)
			v.EndEncoding(e)
			v.EncodeSignal(c, event, uint64(i+1))
			v.Commit(c, func(*driver.Error) { close(done) })
		})
		e, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
		default:
			t.Fatal("the event of a stream is done, and earlier work of its queue is not")
		}
		if err := sem.Wait(t.Context(), uint64(i+1)); err != nil {
			t.Error(err)
		}
		object, value, err := SharedEventOfEvent(e)
		if err != nil || v.Value(driver.ID(object)) < value {
			t.Errorf("the shared event of an event that is done: %v, value %d of %d", err, v.Value(driver.ID(object)), value)
		}
	}
	if id, err := SharedEventOf(sem); id != uintptr(event) || err != nil {
		t.Errorf("SharedEventOf: %#x, %v", id, err)
	}
	for _, id := range []driver.ID{raw, theirs, ours, event} { // the stream and the semaphore have retained theirs
		v.Release(id)
	}
	last, err := s.Record()
	if err := errors.Join(err, s.Close(), sem.Close()); err != nil {
		t.Error(err)
	}
	_, _, err = SharedEventOfEvent(last)
	wantError(t, err, core.ErrClosed, "the shared event of a closed stream")
}

// A queue of another library may have room for one command buffer only. A Signal then blocks until there is room, and so must
// not hold what the handler of the one before needs.
func TestSignalsInAQueueWithLittleRoom(t *testing.T) {
	d, v := device1(t, fake.Config{Delay: time.Millisecond})
	raw := v.NewCommandQueue(d.id, 1)
	s, err := d.ImportStream(t.Context(), uintptr(raw))
	v.Release(raw)
	if err != nil {
		t.Fatal(err)
	}
	sem, err := d.NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := sem.Signal(s, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(sem.Wait(t.Context(), 20), s.Close(), sem.Close()); err != nil {
		t.Error(err)
	}
}

// More work than a command queue has room for is held on the host, and Copy does not block.
func TestAStreamTakesMoreWorkThanItsQueue(t *testing.T) {
	d, v := device1(t, fake.Config{Unified: true})
	s, gate := d.open1(t), d.open1(t)
	const n = 128 << 10
	x, y := row(t, d, n, core.AllocOptions{}), row(t, d, n, core.AllocOptions{})
	content := pattern(n, 5)
	put(t, d, x, content)
	sem, err := d.NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := sem.WaitOn(s, 1); err != nil {
		t.Fatal(err)
	}
	for range 3 * roomInQueue {
		if err := errors.Join(d.Copy(t.Context(), s, y, x), d.Copy(t.Context(), s, x, y)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(sem.Signal(gate, 1), s.Synchronize(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := get(t, d, y); !bytes.Equal(got, content) {
		t.Error("the bytes are wrong")
	}
	if n := v.Blocked(); n > 0 {
		t.Errorf("commandBuffer has blocked %d times", n)
	}
	if err := errors.Join(s.Close(), gate.Close(), sem.Close(), x.Close(), y.Close()); err != nil {
		t.Error(err)
	}
}

// The host copies what the GPU writes on another stream when that is done, and the GPU copies what the host writes.
func TestTheHostWaitsForTheWorkOfOtherStreams(t *testing.T) {
	d, _ := device1(t, fake.Config{Unified: true, Delay: 5 * time.Millisecond})
	a, b := d.open1(t), d.open1(t)
	const n = 2 * cmdqueue.QuickBytes
	x, y, z := row(t, d, n, core.AllocOptions{}), row(t, d, n, core.AllocOptions{}), row(t, d, n, core.AllocOptions{})
	part := func(x *core.Tensor) *core.Tensor { return keep(t)(x.Slice(0, 0, 1000, 1)) }
	small, into := part(y), part(z)
	for i := range 10 {
		content := pattern(n, uint64(i))
		put(t, d, x, content)
		if err := errors.Join(
			d.Copy(t.Context(), a, y, x),        // by the GPU
			d.Copy(t.Context(), b, into, small), // by the host
			d.Copy(t.Context(), a, x, z),        // by the GPU
			a.Synchronize(t.Context())); err != nil {
			t.Fatal(err)
		}
		if got := get(t, d, x); !bytes.Equal(got[:1000], content[:1000]) {
			t.Fatalf("round %d: the bytes are wrong", i)
		}
	}
	if err := errors.Join(a.Close(), b.Close(), x.Close(), y.Close(), z.Close(), small.Close(), into.Close()); err != nil {
		t.Error(err)
	}
}

// Values that two streams signal are set in their order, however late the first stream is.
func TestTwoStreamsSignalInOrder(t *testing.T) {
	d, _ := device1(t, fake.Config{Delay: 2 * time.Millisecond}) // reports a value that falls
	a, b := d.open1(t), d.open1(t)
	const n = 64 << 10
	x, y := row(t, d, n, core.AllocOptions{}), row(t, d, n, core.AllocOptions{})
	sem, err := d.NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(8) { // fewer items than a stream commits at once
		if err := errors.Join(d.Copy(t.Context(), a, y, x), sem.Signal(a, 2*i+1), sem.Signal(b, 2*i+2)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(sem.Wait(t.Context(), 16), a.Close(), b.Close(), sem.Close(), x.Close(), y.Close()); err != nil {
		t.Error(err)
	}
}
