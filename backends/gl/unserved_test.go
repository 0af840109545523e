//go:build gl && linux && cgo

package gl

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// unserved is a wrapped context whose thread runs what it is given only as often as it is
// allowed to, which is for ever to begin with.
type unserved struct {
	mu      sync.Mutex
	more    *sync.Cond
	allowed int
}

const always = 1 << 30

func newUnserved(tb testing.TB) (*unserved, *device) {
	tb.Helper()
	u := &unserved{allowed: always}
	u.more = sync.NewCond(&u.mu)
	first, through := wrapped(tb)
	closeDevice(tb, first)
	outer, err := Wrap(func(f func()) {
		u.mu.Lock()
		for u.allowed == 0 {
			u.more.Wait()
		}
		u.allowed--
		u.mu.Unlock()
		through(f)
	})
	if err != nil {
		tb.Fatal(err)
	}
	d := outer.(*device)
	d.relay.Patience = 50 * time.Millisecond
	tb.Cleanup(func() {
		u.allow(always)
		closeDevice(tb, d)
	})
	return u, d
}

// allow lets the thread run so many functions from now on.
func (u *unserved) allow(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.allowed = n
	u.more.Broadcast()
}

// left is how many of them it has not run.
func (u *unserved) left() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.allowed
}

// soon is a context that ends soon.
func soon(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Millisecond)
	tb.Cleanup(cancel)
	return ctx
}

// within fails the test where f takes long.
func within(tb testing.TB, what string, f func() error) error {
	tb.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		tb.Fatalf("%s hangs", what)
		return nil
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	u, d := newUnserved(t)
	d.info.software = false
	x, y := row(t, d, 10_000, core.AllocOptions{}), row(t, d, 10_000, core.AllocOptions{})
	content := bytes.Repeat([]byte{7}, 10_000)
	put(t, d, x, content)
	put(t, d, y, content)
	host := keep(t)(core.FromSlice(make([]byte, 10_000)))
	turned := keep(t)(keep(t)(x.Reshape(100, 100)).Transpose())
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u.allow(0)
	for what, f := range map[string]func(context.Context) error{
		"Alloc": func(ctx context.Context) error {
			_, err := d.Alloc(ctx, 100, core.AllocOptions{})
			return err
		},
		"an upload":      func(ctx context.Context) error { return d.Copy(ctx, nil, y, host) },
		"a download":     func(ctx context.Context) error { return d.Copy(ctx, nil, host, x) },
		"a copy within":  func(ctx context.Context) error { return d.Copy(ctx, nil, y, x) },
		"a strided copy": func(ctx context.Context) error { return d.Copy(ctx, nil, keep(t)(y.Reshape(100, 100)), turned) },
		"ImportMemory": func(ctx context.Context) error {
			m := core.ExternalMemory{Handle: coretest.HandleOf(t, core.HandleOpaqueFD, memoryFile(t, 1<<16)), Size: 1 << 16, Length: 1000, DeviceUUID: d.info.deviceUUID, DriverUUID: d.info.driverUUID}
			d.info.software = true // a file without a head
			defer func() { d.info.software = false }()
			if _, err := d.ImportMemory(ctx, m); !errors.Is(err, core.ErrInvalid) {
				return err
			}
			return context.DeadlineExceeded
		},
		"Synchronize": func(ctx context.Context) error {
			if _, err := s.Record(); err != nil { // which waits for a fence
				return err
			}
			return s.Synchronize(ctx)
		},
		"Wait of an event": func(ctx context.Context) error {
			e, err := s.Record()
			if err != nil {
				return err
			}
			return e.Wait(ctx)
		},
	} {
		if err := within(t, what, func() error { return f(soon(t)) }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: error %v, want %v", what, err, context.DeadlineExceeded)
		}
	}
	if got := within(t, "NewStream", func() error { q, err := d.NewStream(soon(t)); _ = q.Close(); return err }); got != nil {
		t.Errorf("NewStream: %v", got)
	}
	u.allow(always)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(get(t, d, y), content) {
		t.Error("a copy ran after its context had ended")
	}
}

func TestWhatHasNoContextIsRefusedWhereNobodyServesTheThread(t *testing.T) {
	u, d := newUnserved(t)
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := row(t, d, 100, core.AllocOptions{})
	u.allow(0)
	if _, err := s.Record(); err != nil { // which waits for a fence
		t.Fatal(err)
	}
	refused := func(what string, f func() error) {
		t.Helper()
		var typed *core.Error
		if err := within(t, what, f); !errors.Is(err, core.ErrInvalid) || !errors.As(err, &typed) || typed.Backend != "gl" {
			t.Errorf("%s: error %v, want %q", what, err, core.ErrInvalid)
		}
	}
	refused("Close of a stream", s.Close)
	refused("ImportPointer", func() error { _, err := d.ImportPointer(1, 4, nil); return err })
	u.allow(always)
	if err := s.Synchronize(t.Context()); err != nil {
		t.Errorf("the stream that could not be closed: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("another Close of the stream: %v", err)
	}
	_ = x.Close()
	u.allow(0)
	for range 2 {
		refused("Close of the device", d.Close)
	}
	u.allow(always)
	_ = row(t, d, 100, core.AllocOptions{}).Close() // it is open
}

// Memory that was released waits for work which needs the thread.
func TestCloseWithReleasedMemoryIsRefusedWhereNobodyServesTheThread(t *testing.T) {
	u, d := newUnserved(t)
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := row(t, d, 100, core.AllocOptions{})
	u.allow(0)
	e, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	b.Used(e)
	_ = x.Close()
	s.(*queue).Opened.Close() // as if its Close had not waited
	if err := within(t, "Close", d.Close); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Close: %v", err)
	}
	s.(*queue).Opened = d.Opened("stream")
	u.allow(always)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Wherever in a copy its context ends: what the commands use is kept until they are done.
func TestACopyThatIsLetGoOfKeepsItsMemory(t *testing.T) {
	for _, way := range []string{"upload", "download", "strided", "within"} {
		for served := range 8 {
			u, d := newUnserved(t)
			d.info.software = false
			var done atomic.Bool
			d.driver.clientWaitSync = func(fence uintptr, flags uint32, timeout uint64) uint32 {
				if status := gl.ClientWaitSync(fence, flags, timeout); done.Load() {
					return status
				}
				return gl.TIMEOUT_EXPIRED
			}
			done.Store(true)
			dtype, shape := core.TypeUint8, []int64{64, 64}
			x := keep(t)(core.Empty(t.Context(), d, dtype, shape, core.AllocOptions{}))
			y := keep(t)(core.Empty(t.Context(), d, dtype, shape, core.AllocOptions{}))
			host := keep(t)(core.FromSlice(make([]byte, 64*64), 64, 64))
			dst, src := y, x
			switch way {
			case "upload":
				src = keep(t)(host.Transpose())
			case "download":
				dst = keep(t)(host.Transpose())
			case "strided":
				src = keep(t)(x.Transpose())
			}
			done.Store(false)
			u.allow(served)
			err := within(t, way, func() error { return d.Copy(soon(t), nil, dst, src) })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, %d functions served: %v", way, served, err)
			}
			served -= u.left() // a busy machine may run fewer in time
			d.Mu.Lock()
			spares := len(d.spares)
			d.Mu.Unlock()
			if spares > 0 && served > 2 {
				t.Errorf("%s, %d functions served: staging memory was given back before its work was done", way, served)
			}
			for _, x := range []*core.Tensor{x, y, host, dst, src} {
				_ = x.Close()
			}
			u.allow(always)
			if served > 2 {
				time.Sleep(5 * time.Millisecond)
				d.Mu.Lock()
				open := d.Memories
				d.Mu.Unlock()
				if open == 0 {
					t.Errorf("%s, %d functions served: memory was freed before its work was done", way, served)
				}
			}
			done.Store(true)
			if err := within(t, "Close", d.Close); err != nil {
				t.Errorf("%s, %d functions served: Close: %v", way, served, err)
			}
		}
	}
}

func TestAThreadWithoutAContextIsTold(t *testing.T) {
	var elsewhere atomic.Bool
	first, through := wrapped(t)
	closeDevice(t, first)
	d, err := Wrap(func(f func()) {
		if elsewhere.Load() {
			done := make(chan struct{})
			go func() { defer close(done); f() }()
			<-done
			return
		}
		through(f)
	})
	if err != nil {
		t.Fatal(err)
	}
	x, host := row(t, d, 100, core.AllocOptions{}), keep(t)(core.FromSlice(make([]byte, 100)))
	elsewhere.Store(true)
	_, alloc := d.Alloc(t.Context(), 100, core.AllocOptions{})
	for call, err := range map[string]error{"Alloc": alloc, "Copy": d.Copy(t.Context(), nil, host, x)} {
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: error %v, want %q", call, err, core.ErrInvalid)
		}
	}
	elsewhere.Store(false)
	_ = x.Close()
	closeDevice(t, d)
}

func TestWhatWasIssuedIsWaitedForUntilItsContextIsCurrent(t *testing.T) {
	var elsewhere, done atomic.Bool
	first, through := wrapped(t)
	closeDevice(t, first)
	outer, err := Wrap(func(f func()) {
		if !elsewhere.Load() {
			through(f)
			return
		}
		ended := make(chan struct{})
		go func() { defer close(ended); f() }()
		<-ended
	})
	if err != nil {
		t.Fatal(err)
	}
	d := outer.(*device)
	d.info.software = false
	d.driver.clientWaitSync = func(fence uintptr, flags uint32, timeout uint64) uint32 {
		if done.Load() {
			return gl.ClientWaitSync(fence, flags, timeout)
		}
		elsewhere.Store(true) // from the next call on
		return gl.TIMEOUT_EXPIRED
	}
	x, y := row(t, d, 100, core.AllocOptions{}), row(t, d, 100, core.AllocOptions{})
	err = within(t, "Copy", func() error { return d.Copy(t.Context(), nil, y, x) })
	if !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Copy: error %v, want %q", err, core.ErrInvalid)
	}
	_, _ = x.Close(), y.Close()
	time.Sleep(5 * time.Millisecond)
	d.Mu.Lock()
	open := d.Memories
	d.Mu.Unlock()
	if open == 0 {
		t.Error("memory was freed before the work on it was done")
	}
	done.Store(true)
	elsewhere.Store(false)
	closeDevice(t, d)
}
