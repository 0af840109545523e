//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Each call to the driver fails once, at each of its places in a life with all that a
// device does. Whatever comes of it ends, is a typed error, and leaks nothing.
func TestEveryCallMayFail(t *testing.T) {
	sim := simulator(t)
	_ = open(t).Close() // says what is missing
	before := sim.Calls()
	if err := wholeLife(t.Context()); err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	uses := sim.Calls()
	codes := []driver.Status{driver.OutOfMemory, driver.Unknown, driver.IllegalAddress}
	if testing.Short() {
		codes = codes[:1]
	}
	for _, call := range slices.Sorted(maps.Keys(uses)) {
		if uses[call] == before[call] {
			continue
		}
		for _, code := range codes {
			t.Run(call+"/"+code.String(), func(t *testing.T) {
				// Some are called hundreds of times, the later of them all for the same.
				for n, more := 1, true; more; n += 1 + n/2 {
					more = failOnce(t, call, n, code)
				}
			})
		}
	}
}

// failOnce has the nth call of a function fail in a life, and reports whether there was one.
func failOnce(t *testing.T, call string, n int, code driver.Status) bool {
	sim := simulator(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	coretest.CheckNoLeaks(t)
	live, calls, files := sim.Live(), sim.Count(call), descriptors(t)
	done := make(chan error, 1)
	sim.Fail(call, n, int(code))
	go func() { done <- wholeLife(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		t.Fatalf("call %d: nothing went on", n)
	}
	sim.Fail(call, 0, 0)
	for _, e := range flatten(err) {
		var typed *core.Error
		if !errors.As(e, &typed) {
			t.Errorf("call %d: error %v is no *core.Error", n, e)
		}
	}
	wantLive(t, sim, live)
	if now := descriptors(t); now != files {
		t.Errorf("call %d: %d descriptors are open, %d were", n, now, files)
	}
	return sim.Count(call)-calls >= n && !t.Failed()
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// wholeLife opens a device, does all that it can do, and closes everything. Where a
// step fails, those that need it are left out.
func wholeLife(ctx context.Context) error {
	d, err := New().Open(ctx, core.DeviceID{Type: core.DeviceCUDA})
	if err != nil {
		return err
	}
	l := &lifetime{ctx: ctx, device: d}
	l.run()
	for _, f := range slices.Backward(l.cleanup) {
		l.note(f())
	}
	l.note(d.Close())
	return errors.Join(l.errs...)
}

type lifetime struct {
	ctx     context.Context
	device  core.Device
	errs    []error
	cleanup []func() error
}

func (l *lifetime) note(err error) bool {
	if err != nil {
		l.errs = append(l.errs, err)
	}
	return err == nil
}

// tensor is nil where it could not be made.
func (l *lifetime) tensor(t *core.Tensor, err error) *core.Tensor {
	if !l.note(err) {
		return nil
	}
	l.cleanup = append(l.cleanup, t.Close)
	return t
}

// square allocates a matrix.
func (l *lifetime) square(o core.AllocOptions) *core.Tensor {
	return l.tensor(core.Empty(l.ctx, l.device, core.TypeFloat32, []int64{64, 64}, o))
}

// stream is nil where it could not be opened.
func (l *lifetime) stream(s core.Stream, err error) core.Stream {
	if !l.note(err) {
		return nil
	}
	l.cleanup = append(l.cleanup, s.Close)
	return s
}

// copy copies, if both tensors could be made, and reports whether that worked.
func (l *lifetime) copy(s core.Stream, dst, src *core.Tensor) bool {
	return dst != nil && src != nil && l.note(l.device.Copy(l.ctx, s, dst, src))
}

// journey has numbers go to the device, through a kernel and back, and many bytes in pieces
// of staging. What no call refused must have arrived.
func (l *lifetime) journey(s core.Stream) {
	const n = 64
	values, back := make([]float32, n*n), make([]float32, n*n)
	for i := range values {
		values[i] = float32(i)
	}
	from, to := l.tensor(core.FromSlice(values, n, n)), l.tensor(core.FromSlice(back, n, n))
	if a, b := l.square(core.AllocOptions{Stream: s}), l.square(core.AllocOptions{}); a != nil && b != nil {
		across := l.tensor(a.Transpose())
		if l.copy(s, a, from) && l.copy(s, b, across) && l.copy(s, to, b) && l.note(to.WaitReady(l.ctx)) {
			for i, x := range back {
				if want := values[i%n*n+i/n]; x != want {
					l.note(fmt.Errorf("no call failed, and element %d is %v, want %v", i, x, want))
					break
				}
			}
		}
	}
	sent, received := bytes.Repeat([]byte("staged "), stagingBytes/7+2), make([]byte, (stagingBytes/7+2)*7)
	in, out := l.tensor(core.FromSlice(sent)), l.tensor(core.FromSlice(received))
	many := l.tensor(core.Empty(l.ctx, l.device, core.TypeUint8, []int64{int64(len(sent))}, core.AllocOptions{}))
	if l.copy(s, many, in) && l.copy(s, out, many) && l.note(out.WaitReady(l.ctx)) && !bytes.Equal(sent, received) {
		l.note(errors.New("no call failed, and what was staged has changed"))
	}
}

func (l *lifetime) run() {
	host := l.tensor(core.FromSlice(make([]float32, 64*64), 64, 64))
	a, b := l.square(core.AllocOptions{}), l.square(core.AllocOptions{})
	pinned := l.square(core.AllocOptions{Type: core.DeviceCUDAHost})
	managed := l.square(core.AllocOptions{Type: core.DeviceCUDAManaged})
	s := l.stream(l.device.NewStream(l.ctx))
	for _, on := range []core.Stream{nil, s} {
		l.copy(on, a, host)
		l.copy(on, pinned, a)
		l.copy(on, managed, pinned)
		l.copy(on, host, a)
		if a != nil && b != nil {
			across := l.tensor(a.Transpose())
			l.copy(on, b, across)    // by a kernel
			l.copy(on, host, across) // packed by one
			l.copy(on, l.tensor(b.Slice(0, 0, 64, 2)), l.tensor(a.Slice(0, 0, 64, 2)))
		}
	}
	if s != nil {
		l.solid(s)
		l.journey(s)
		l.order(s)
		l.time(s)
	}
	l.share()
	l.peer(a)
}

// solid copies boxes of three dimensions.
func (l *lifetime) solid(s core.Stream) {
	var parts [2]*core.Tensor
	for i := range parts {
		whole := l.tensor(core.Empty(l.ctx, l.device, core.TypeFloat32, []int64{4, 10, 64}, core.AllocOptions{}))
		if whole == nil {
			return
		}
		parts[i] = l.tensor(whole.Slice(1, int64(i), int64(i)+7, 2))
	}
	l.copy(s, parts[0], parts[1])
}

// order uses streams, events and the order of the pool's memory.
func (l *lifetime) order(s core.Stream) {
	if other := l.stream(l.device.(core.StreamImporter).ImportStream(l.ctx, s.Native())); other != nil {
		l.note(other.Synchronize(l.ctx))
	}
	other := l.stream(l.device.NewStream(l.ctx))
	if e, err := s.Record(); l.note(err) && other != nil {
		l.note(other.Wait(e))
		l.note(e.Wait(l.ctx))
	}
	if x, err := core.Empty(l.ctx, l.device, core.TypeFloat32, []int64{10_000}, core.AllocOptions{}); l.note(err) {
		l.note(l.device.Copy(l.ctx, s, x, x))
		l.note(x.Close())
	}
	if other != nil {
		l.tensor(core.Empty(l.ctx, l.device, core.TypeFloat32, []int64{10_000}, core.AllocOptions{Stream: other}))
	}
	l.note(s.Synchronize(l.ctx))
}

func (l *lifetime) time(s core.Stream) {
	timer, err := NewTimer(l.ctx, l.device)
	if !l.note(err) {
		return
	}
	l.cleanup = append(l.cleanup, timer.Close)
	if l.note(timer.Start(s)) && l.note(timer.Stop(s)) {
		_, err := timer.Elapsed(l.ctx)
		l.note(err)
	}
}

// share uses what other libraries and processes are given.
func (l *lifetime) share() {
	for _, h := range l.device.(core.MemoryExporter).ExportTypes() {
		x := l.square(core.AllocOptions{Export: h})
		if x == nil {
			continue
		}
		b, err := x.Buffer()
		l.note(err)
		if m, err := l.device.(core.MemoryExporter).ExportMemory(b, h); l.note(err) && h.IsFD() {
			l.note(unix.Close(m.FD))
		}
		if m, err := l.device.(core.PointerImporter).ImportPointer(b.Memory().Handle, b.Memory().Size, nil); l.note(err) {
			m.Free()
		}
	}
	if e, err := NewIPCEvent(l.ctx, l.device); l.note(err) {
		l.cleanup = append(l.cleanup, e.Close)
	}
}

// peer copies from another device.
func (l *lifetime) peer(a *core.Tensor) {
	other, err := New().Open(l.ctx, core.DeviceID{Type: core.DeviceCUDA, Index: 1})
	if !l.note(err) {
		return
	}
	l.cleanup = append(l.cleanup, other.Close)
	x := l.tensor(core.Empty(l.ctx, other, core.TypeFloat32, []int64{64, 64}, core.AllocOptions{}))
	if x != nil && a != nil {
		l.note(l.device.(core.PeerCopier).CopyPeer(l.ctx, nil, a, x, other))
	}
}
