//go:build webgpu && linux && cgo

package webgpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/webgpu/internal/faults"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

var installFaults = sync.OnceFunc(func() { faults.Install(wgpu.Table()) })

// Each call fails once, at each of its places in a life with all that a device can do. Whatever comes of it ends, is a
// typed error and leaks nothing.
func TestEveryCallMayFail(t *testing.T) {
	closeDevice(t, open(t)) // the library is open
	installFaults()
	if errs := life(t.Context()); errs != nil {
		t.Fatalf("without a fault: %v", errs)
	}
	for i, call := range faults.Calls() {
		for _, silent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/silent=%v", call, silent), func(t *testing.T) { failEach(t, i, silent) })
		}
	}
}

// failEach lets the first call fail, then the second, and from the eighth on ever fewer, as far as there are; in a quick test the first,
// the fourth and so on.
func failEach(t *testing.T, call int, silent bool) {
	for n := int64(1); ; n++ {
		before, callbacks := faults.Objects(), wgpu.Callbacks()
		coretest.CheckNoLeaks(t)
		faults.Arm(call, n, silent)
		errs := life(t.Context())
		if !faults.Disarm(call) {
			if n == 1 {
				t.Error("the call never came")
			}
			return
		}
		name := faults.Calls()[call]
		again := name == "wgpuDeviceCreateBuffer" && silent // which is for lack of memory: spare buffers may give some
		if len(errs) == 0 && name != "wgpuAdapterGetInfo" && name != "wgpuAdapterGetLimits" && !again {
			t.Errorf("call %d failed, and nobody heard of it", n)
		}
		for _, err := range errs {
			var typed *core.Error
			if !errors.As(err, &typed) || typed.Call == "" {
				t.Errorf("call %d: error %v names no call", n, err)
			}
		}
		if now := faults.Objects(); now != before {
			t.Errorf("call %d: %d objects of the library are left", n, now-before)
		}
		if now := wgpu.Callbacks(); now != callbacks {
			t.Errorf("call %d: %d callbacks are left", n, now-callbacks)
		}
		if coretest.Quick() || coretest.Sanitized {
			n = 8*n - 1
		} else {
			n += n / 8
		}
	}
}

// life opens a device, uses it, and closes everything. It goes on after errors, and returns them all.
func life(ctx context.Context) (errs []error) {
	note := func(err error) bool {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			errs = append(errs, many.Unwrap()...)
		} else if err != nil {
			errs = append(errs, err)
		}
		return err == nil
	}
	d, err := New().Open(ctx, first)
	if !note(err) {
		return errs
	}
	var cleanup []func() error
	tensor := func(t *core.Tensor, err error) *core.Tensor {
		if !note(err) {
			return nil
		}
		cleanup = append(cleanup, t.Close)
		return t
	}
	converted := func(dst, src *core.Tensor) {
		if dst != nil && src != nil {
			note(d.(core.Converter).ConvertOn(ctx, nil, dst, src, core.Scaling{Scale: []float32{0.5}}))
		}
	}
	// What a device of its own cannot have is left out after an error.
	copied := func(dst, src *core.Tensor) {
		if dst != nil && src != nil {
			note(d.Copy(ctx, nil, dst, src))
		}
	}
	turned := func(t *core.Tensor) *core.Tensor {
		if t == nil {
			return nil
		}
		return tensor(t.Transpose())
	}
	empty := func() *core.Tensor {
		return tensor(core.Empty(ctx, d, core.TypeUint8, []int64{30, 30}, core.AllocOptions{}))
	}
	host := tensor(core.FromSlice(make([]uint8, 900), 30, 30))
	a, b := empty(), empty()
	copied(a, host)
	copied(turned(b), host)
	copied(b, a)
	copied(b, turned(a))
	copied(host, b)
	copied(turned(host), b)
	// On a processor, the host picks the elements of larger copies.
	wide := func() *core.Tensor {
		return tensor(core.Empty(ctx, d, core.TypeUint8, []int64{90, 90}, core.AllocOptions{}))
	}
	x, y, there := wide(), wide(), tensor(tensor(core.FromSlice(make([]uint8, 8100))).Reshape(90, 90))
	copied(x, turned(y))
	copied(there, turned(x))
	if a != nil {
		odd, other := tensor(a.Slice(0, 1, 4, 1)), tensor(a.Slice(0, 15, 18, 1)) // 90 bytes from byte 30 and from byte 450
		copied(odd, other)
		converted(odd, other)
		converted(b, a)
		if hostPart := tensor(host.Slice(0, 0, 3, 1)); odd != nil {
			copied(odd, hostPart)
			copied(hostPart, odd)
		}
		if buffer, err := a.Buffer(); note(err) {
			m := buffer.Memory()
			again, err := d.(core.PointerImporter).ImportPointer(m.Handle, m.Size, nil)
			if note(err) {
				again.Free()
			}
		}
	}
	if native, err := DeviceOf(d); note(err) {
		if outer, err := Wrap(ctx, native, 0); note(err) {
			note(outer.Close())
		}
	}
	if s, err := d.NewStream(ctx); note(err) {
		if a != nil && b != nil {
			note(d.Copy(ctx, s, b, a))
			if u := turned(a); u != nil {
				note(d.Copy(ctx, s, b, u)) // while the copy before may be unfinished
			}
			// Packed and directly, up, within and down: none of the copies needs another.
			const large = smallCopy + 4
			c, e := empty(), empty()
			wide := tensor(core.Empty(ctx, d, core.TypeUint8, []int64{large}, core.AllocOptions{}))
			if c != nil && e != nil && wide != nil {
				back, from := tensor(core.FromSlice(make([]uint8, 900), 30, 30)), tensor(core.FromSlice(make([]uint8, large)))
				note(d.(core.BatchCopier).CopyBatch(ctx, s, []*core.Tensor{a, wide, c, back}, []*core.Tensor{host, from, b, e}))
				if other := tensor(core.Empty(ctx, d, core.TypeUint8, []int64{large}, core.AllocOptions{})); other != nil {
					note(d.(core.BatchCopier).CopyBatch(ctx, s, []*core.Tensor{wide, other}, []*core.Tensor{from, from})) // nothing is packed
				}
			}
		}
		note(s.Synchronize(ctx))
		note(s.Close())
	}
	for _, f := range slices.Backward(cleanup) {
		note(f())
	}
	note(untilClosed(ctx, d))
	return errs
}

// untilClosed closes a device whose last memory may be freed a moment later.
func untilClosed(ctx context.Context, d core.Device) error {
	for {
		err := d.Close()
		if !errors.Is(err, core.ErrInvalid) || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func closeDevice(tb testing.TB, d core.Device) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute) // a Cleanup calls this, too
	defer cancel()
	if err := untilClosed(ctx, d); err != nil {
		tb.Errorf("Close: %v", err)
	}
}

// Copies that were submitted fail, each of them, if the device is lost before the stream knows that they are done.
func TestALostDeviceFailsTheCopiesUnderWay(t *testing.T) {
	closeDevice(t, open(t))
	installFaults()
	d := open(t)
	defer closeDevice(t, d)
	var tensors [2]*core.Tensor
	for i := range tensors {
		var err error
		if tensors[i], err = core.Empty(t.Context(), d, core.TypeUint8, []int64{1000}, core.AllocOptions{}); err != nil {
			t.Fatal(err)
		}
		defer tensors[i].Close()
	}
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	isLost, submitted := stream.NewEvent(), stream.NewEvent()
	untilLost := func() (bool, error) {
		time.Sleep(10 * time.Microsecond)
		return isLost.Done()
	}
	q := s.(*devicebase.Queue).Queue
	errs := []error{devicebase.Start(q, func() (func() (bool, error), error) { return untilLost, nil })}
	var events []core.Event
	for range 5 {
		errCopy := d.Copy(t.Context(), s, tensors[0], tensors[1])
		e, err := s.Record()
		events, errs = append(events, e), append(errs, errCopy, err)
	}
	errs = append(errs, devicebase.Start(q, func() (func() (bool, error), error) {
		submitted.Complete(nil)
		return untilLost, nil
	}))
	if err := errors.Join(append(errs, submitted.Wait(t.Context()))...); err != nil {
		t.Fatal(err)
	}
	faults.Lose()
	isLost.Complete(nil)
	coretest.WantError(t, s.Synchronize(t.Context()), core.ErrDeviceLost, "Synchronize")
	for i, e := range events {
		_, err := e.Done()
		coretest.WantError(t, err, core.ErrDeviceLost, fmt.Sprintf("the event of copy %d", i))
	}
}

func TestALostDeviceFailsEveryCallAndCanBeClosed(t *testing.T) {
	closeDevice(t, open(t))
	installFaults()
	for _, c := range []struct {
		rule string
		lose func(d core.Device) error
	}{
		{"the callback comes", func(core.Device) error { faults.Lose(); return nil }},
		{"somebody destroys it", func(d core.Device) error {
			native, err := DeviceOf(d)
			faults.Destroy(native)
			return err
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			objects, callbacks := faults.Objects(), wgpu.Callbacks()
			d := open(t)
			s, err := d.NewStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			host := coretest.Keep(t)(core.FromSlice(make([]uint8, 1000)))
			a, errA := core.Empty(t.Context(), d, core.TypeUint8, []int64{1000}, core.AllocOptions{})
			b, errB := core.Empty(t.Context(), d, core.TypeUint8, []int64{1000}, core.AllocOptions{})
			if err := errors.Join(errA, errB, d.Copy(t.Context(), s, a, host), s.Synchronize(t.Context())); err != nil {
				t.Fatal(err)
			}
			buffer, err := a.Buffer()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.lose(d); err != nil {
				t.Fatal(err)
			}
			m := buffer.Memory()
			lost := func(what string, err error) {
				t.Helper()
				var typed *core.Error
				if !errors.Is(err, core.ErrDeviceLost) || !errors.As(err, &typed) || typed.Backend != "webgpu" || typed.Call == "" {
					t.Errorf("%s: error %v, want %q with its call", what, err, core.ErrDeviceLost)
				}
			}
			lost("Copy to the device", d.Copy(t.Context(), nil, a, host))
			lost("Copy within the device", d.Copy(t.Context(), nil, b, a))
			lost("Copy to the host", d.Copy(t.Context(), nil, host, b))
			if err := d.Copy(t.Context(), s, b, a); err == nil {
				err = s.Synchronize(t.Context())
				lost("Synchronize", err)
			} else {
				lost("Copy", err)
			}
			_, err = d.Alloc(t.Context(), 100, core.AllocOptions{})
			lost("Alloc", err)
			_, err = d.Alloc(t.Context(), 0, core.AllocOptions{})
			lost("Alloc of no bytes", err)
			_, err = d.(core.PointerImporter).ImportPointer(m.Handle, 1000, nil)
			lost("ImportPointer", err)
			_, err = d.NewStream(t.Context())
			lost("NewStream", err)
			_, _, _ = s.Close(), a.Close(), b.Close()
			closeDevice(t, d)
			if now := faults.Objects(); now != objects {
				t.Errorf("%d objects of the library are left", now-objects)
			}
			if now := wgpu.Callbacks(); now != callbacks {
				t.Errorf("%d callbacks are left", now-callbacks)
			}
		})
	}
}
