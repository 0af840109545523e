//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/clcore/faults"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

var installFaults = sync.OnceFunc(func() { faults.Install(driver.Table()) })

// Each call to the driver fails once, at each of its places in a life with all
// that a device can do. Whatever comes of it ends, is a typed error and leaks nothing.
func TestEveryCallMayFail(t *testing.T) {
	needDriver(t, OpenCL)
	callsMayFail(t, variants[0], variants[1], variants[3])
}

func TestEveryCallOfUSMMayFail(t *testing.T) {
	needDriver(t, OneAPI)
	callsMayFail(t, usmVariants...)
}

func callsMayFail(t *testing.T, variants ...variant) {
	installFaults()
	failed := make(map[string]bool)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			if err := life(t.Context(), v); err != nil {
				t.Fatalf("without a fault: %v", err)
			}
			for i, call := range faults.Calls() {
				if strings.HasPrefix(call, "clRelease") || call == "clSVMFree" || call == "clMemFreeINTEL" {
					continue // what cannot be released is the driver's to leak
				}
				if coretest.Quick() && failed[call] {
					continue // in an earlier variant
				}
				t.Run(call, func(t *testing.T) { failed[call] = failEach(t, v, i) || failed[call] })
			}
		})
	}
}

// failEach lets the first call fail, then the second, as far as there are; in a quick test the first, the eighth and so on. It
// reports whether there was a call.
func failEach(t *testing.T, v variant, call int) (failed bool) {
	next := func(n int64) int64 { return n + 1 }
	if coretest.Quick() {
		next = func(n int64) int64 { return 8 * n }
	}
	for n := int64(1); ; n = next(n) {
		done := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		coretest.CheckNoLeaks(t)
		faults.Arm(call, n)
		go func() { done <- life(ctx, v) }()
		var err error
		select {
		case err = <-done:
		case <-ctx.Done():
			t.Fatalf("call %d: nothing went on", n)
		}
		if !faults.Disarm(call) {
			return failed
		}
		failed = true
		for _, e := range flatten(err) {
			var typed *core.Error
			if !errors.As(e, &typed) {
				t.Errorf("call %d: error %v is no *core.Error", n, e)
			}
		}
	}
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

// life opens a device, does all that it can do, and closes everything. Where a
// step fails, those that need it are left out.
func life(ctx context.Context, v variant) error {
	outer, err := v.open()
	if err != nil {
		return err
	}
	l := &lifetime{ctx: ctx, api: v.api, device: outer}
	l.run()
	for _, f := range slices.Backward(l.cleanup) {
		l.note(f())
	}
	for { // memory whose last work has only just ended
		err := outer.Close()
		if !errors.Is(err, core.ErrInvalid) || ctx.Err() != nil {
			l.note(err)
			return errors.Join(l.errs...)
		}
		time.Sleep(time.Millisecond)
	}
}

type lifetime struct {
	ctx     context.Context
	api     API
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

func (l *lifetime) tensor(t *core.Tensor, err error) *core.Tensor {
	if !l.note(err) {
		return nil
	}
	l.cleanup = append(l.cleanup, t.Close)
	return t
}

// copy copies on a stream, if both tensors could be made.
func (l *lifetime) copy(s core.Stream, dst, src *core.Tensor) {
	if dst != nil && src != nil {
		l.note(l.device.Copy(l.ctx, s, dst, src))
	}
}

// batch copies rows in one batch: a few, which are commands, and so many that the host makes them if it reaches the
// memory. One of the copies needs packing.
func (l *lifetime) batch(s core.Stream, a, b, host *core.Tensor) {
	for _, n := range []int64{2, minHostBatch} {
		var dst, src []*core.Tensor
		for i := range n {
			for _, pair := range [2][2]*core.Tensor{{a, host}, {host, b}} {
				to, from := pair[0], pair[1]
				at := i
				if to == host {
					at += minHostBatch // rows that nothing else uses
				}
				row := l.tensor(to.Slice(0, at, at+1, 1))
				other := l.tensor(from.Slice(0, at, at+1, 1))
				if i == 0 {
					row, other = l.tensor(to.Slice(0, 40+at, 40+at+1, 1)), l.tensor(from.Slice(0, 40+at, 40+at+1, 1))
					row, other = l.tensor(row.Slice(1, 0, 64, 2)), l.tensor(other.Slice(1, 0, 64, 2))
				}
				dst, src = append(dst, row), append(src, other)
			}
		}
		l.note(l.device.(core.BatchCopier).CopyBatch(l.ctx, s, dst, src))
	}
}

// convert converts on a stream, if both tensors could be made.
func (l *lifetime) convert(s core.Stream, dst, src *core.Tensor) {
	if dst != nil && src != nil {
		scaling := core.Scaling{Scale: []float32{0.5}, Offset: []float32{1}}
		l.note(l.device.(core.Converter).ConvertOn(l.ctx, s, dst, src, scaling))
	}
}

func (l *lifetime) run() {
	host := l.tensor(core.FromSlice(make([]float32, 64*64), 64, 64))
	a := l.tensor(core.Empty(l.ctx, l.device, core.TypeFloat32, []int64{64, 64}, core.AllocOptions{}))
	b := l.tensor(core.Empty(l.ctx, l.device, core.TypeFloat32, []int64{64, 64}, core.AllocOptions{}))
	l.copy(nil, a, host)
	if a == nil || b == nil {
		return
	}
	turned := l.tensor(a.Transpose())
	rows := l.tensor(a.Slice(0, 0, 64, 2))
	into := l.tensor(b.Slice(0, 0, 64, 2))
	l.copy(nil, b, turned)
	l.copy(nil, into, rows)
	turnedHost := l.tensor(host.Transpose())
	l.copy(nil, turnedHost, a)
	l.batch(nil, a, b, host)
	pixels := l.tensor(core.Empty(l.ctx, l.device, core.TypeUint8, []int64{64, 64}, core.AllocOptions{}))
	l.convert(nil, b, pixels)
	l.streams(a, b, host, turned, pixels)
	l.time(a, host)
	l.sharing(a)
}

func (l *lifetime) streams(a, b, host, turned, pixels *core.Tensor) {
	s, err := l.device.NewStream(l.ctx)
	if !l.note(err) {
		return
	}
	l.cleanup = append(l.cleanup, s.Close)
	if h, err := l.api.HandlesOf(l.device); l.note(err) {
		l.imported(h, a, host)
	}
	other, err := l.device.NewStream(l.ctx)
	if !l.note(err) {
		return
	}
	l.cleanup = append(l.cleanup, other.Close)
	sem, err := l.device.(core.SemaphoreCreator).NewSemaphore(l.ctx, 0)
	if l.note(err) {
		l.cleanup = append(l.cleanup, sem.Close)
		l.note(sem.WaitOn(s, 1))
		signalled := make(chan error, 1)
		go func() { // a copy whose event cannot be recorded waits for the stream
			time.Sleep(time.Millisecond)
			err := sem.Signal(other, 1)
			if err != nil {
				err = errors.Join(err, sem.Close()) // lets the stream go
			}
			signalled <- err
		}()
		l.copy(s, host, a)
		l.copy(s, b, turned)
		l.convert(s, b, pixels)
		l.batch(s, a, b, host)
		l.note(<-signalled)
	}
	if e, err := s.Record(); l.note(err) {
		l.note(e.Wait(l.ctx))
	}
	l.note(s.Synchronize(l.ctx))
}

// time takes the time of a copy.
func (l *lifetime) time(a, host *core.Tensor) {
	clock := l.device.(core.DeviceClock)
	s, err := clock.NewTimedStream(l.ctx)
	if !l.note(err) {
		return
	}
	l.cleanup = append(l.cleanup, s.Close)
	var marks []core.Mark
	mark := func() {
		if m, err := clock.Mark(s); l.note(err) {
			l.cleanup = append(l.cleanup, m.Close)
			marks = append(marks, m)
		}
	}
	mark()
	l.copy(s, a, host)
	mark()
	if l.note(s.Synchronize(l.ctx)) && len(marks) == 2 {
		_, err := marks[1].Since(marks[0])
		l.note(err)
	}
}

// imported uses a queue and an event of another library.
func (l *lifetime) imported(h Handles, a, host *core.Tensor) {
	q, s := driver.CreateQueue(driver.Context(h.Context), driver.Device(h.Device), 0)
	if !l.note(l.api.check(s, "clCreateCommandQueue", "of another library")) {
		return
	}
	l.cleanup = append(l.cleanup, func() error { return l.api.check(driver.ReleaseQueue(q), "clReleaseCommandQueue", "") })
	theirs, err := l.device.(core.StreamImporter).ImportStream(l.ctx, uintptr(q))
	if !l.note(err) {
		return
	}
	l.cleanup = append(l.cleanup, theirs.Close)
	l.copy(theirs, a, host)
	raw, s := driver.CreateUserEvent(driver.Context(h.Context))
	if !l.note(l.api.check(s, "clCreateUserEvent", "of another library")) {
		return
	}
	e, err := l.api.ImportEvent(l.device, uintptr(raw))
	if l.note(err) {
		l.note(theirs.Wait(e))
	}
	for driver.CompleteUserEvent(raw) != driver.Success { // theirs to get done
		time.Sleep(time.Millisecond)
	}
	l.note(l.api.check(driver.ReleaseEvent(raw), "clReleaseEvent", "of another library"))
	if e != nil {
		l.note(e.Wait(l.ctx))
	}
}

func (l *lifetime) sharing(a *core.Tensor) {
	if l.api == OpenCL {
		if sub, err := SubBuffer(a); l.note(err) {
			l.cleanup = append(l.cleanup, sub.Close)
		}
	}
	b, err := a.Buffer()
	if !l.note(err) {
		return
	}
	if m, err := l.device.(core.PointerImporter).ImportPointer(b.Memory().Handle, b.Memory().Size, nil); l.note(err) {
		m.Free()
	}
	if viewer, ok := core.As[core.HostViewer](l.device); ok {
		t := l.tensor(core.Empty(l.ctx, l.device, core.TypeUint8, []int64{5000}, core.AllocOptions{HostVisible: true}))
		if t != nil {
			b, _ := t.Buffer()
			if m, err := viewer.HostView(l.ctx, b); l.note(err) {
				m.Free()
			}
		}
	}
	if mapper, ok := core.As[core.HostMapper](l.device); ok {
		host := l.tensor(core.FromSlice(make([]float32, 64*64), 64, 64))
		b, _ := host.Buffer()
		if m, err := mapper.MapHost(l.ctx, b); l.note(err) {
			mapped := l.tensor(wrap(m, core.Spec{DType: core.TypeFloat32, Shape: []int64{64, 64}}))
			l.copy(nil, mapped, a)
			l.copy(nil, a, mapped)
		}
		l.convertWithinPages(mapper)
	}
}

// convertWithinPages converts between two mappings that share a page.
func (l *lifetime) convertWithinPages(mapper core.HostMapper) {
	const first, middle, end = 64, 64 + 4*64*64, 64 + 5*64*64
	room := l.tensor(core.FromSlice(make([]byte, end)))
	address, err := room.Address()
	if !l.note(err) {
		return
	}
	mapped := func(low, high int64, dtype core.DType) *core.Tensor {
		part := l.tensor(core.Wrap(core.Memory{ID: core.CPU, Handle: address + uintptr(low), Size: high - low},
			core.Spec{DType: core.TypeUint8, Shape: []int64{high - low}}))
		b, _ := part.Buffer()
		m, err := mapper.MapHost(l.ctx, b)
		if !l.note(err) {
			return nil
		}
		return l.tensor(wrap(m, core.Spec{DType: dtype, Shape: []int64{64, 64}}))
	}
	dst, src := mapped(first, middle, core.TypeFloat32), mapped(middle, end, core.TypeUint8)
	l.convert(nil, dst, src)
	if s, err := l.device.NewStream(l.ctx); l.note(err) {
		l.cleanup = append(l.cleanup, s.Close)
		l.convert(s, dst, src)
	}
}
