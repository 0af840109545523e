//go:build webgpu && linux && cgo

package webgpu

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// A copy whose context ends while the device works goes on: who reads the destination later waits for it.
func TestASmallCopyOutlivesItsContext(t *testing.T) {
	d := open(t)
	defer closeDevice(t, d)
	tensor := func(n int64) *core.Tensor {
		t.Helper()
		x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{n}, core.AllocOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	const n, large = 4096, 32 << 20
	dst, src, a, b := tensor(n), tensor(n), tensor(large), tensor(large)
	defer a.Close()
	defer b.Close()
	want := make([]uint8, n)
	for i := range want {
		want[i] = uint8(i * 7)
	}
	if err := d.Copy(t.Context(), nil, src, coretest.Keep(t)(core.FromSlice(want))); err != nil {
		t.Fatal(err)
	}
	handle := func(x *core.Tensor) wgpu.Handle {
		o, err := d.(*device).operandOf(x)
		if err != nil {
			t.Fatal(err)
		}
		return o.buffer.handle
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := d.(*device).copyHere(ctx, dst, src, func() (*wgpu.Work, error) {
		defer cancel()
		return d.(*device).native.Submit("test", func(e *wgpu.Encoder) {
			for range 8 { // so that the device is not done at once
				e.Copy(handle(a), 0, handle(b), 0, large)
			}
			e.Copy(handle(dst), 0, handle(src), 0, n)
		})
	})
	if !errors.Is(err, context.Canceled) && err != nil { // nil if the device was done first
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	src.Close() // the work keeps the memory
	got := make([]uint8, n)
	if err := d.Copy(t.Context(), nil, coretest.Keep(t)(core.FromSlice(got)), dst); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Error("the copy was not done when the destination was read")
	}
	dst.Close()
}

// A copy that fails leaves its error to those that read the destination.
func TestASmallCopyThatFails(t *testing.T) {
	d := open(t)
	defer closeDevice(t, d)
	x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{64}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	host := coretest.Keep(t)(core.FromSlice(make([]uint8, 64)))
	failure := core.Errorf(core.ErrOutOfMemory, "test", "Copy", "a fault of the test")
	got := d.(*device).copyHere(t.Context(), x, host, func() (*wgpu.Work, error) { return nil, failure })
	coretest.WantError(t, got, core.ErrOutOfMemory, "the copy")
	coretest.WantError(t, d.Copy(t.Context(), nil, host, x), core.ErrOutOfMemory, "a copy from its destination")
}

// A stream submits work while the device does the work before, unless that has a large temporary buffer.
func TestWorkIsSubmittedBeforeEarlierWorkIsDone(t *testing.T) {
	opened := open(t)
	defer closeDevice(t, opened)
	d := opened.(*device)
	var memory [2]*buffer
	for i := range memory {
		var err error
		if memory[i], err = d.newBuffer("test", wgpu.Memory, 32<<20); err != nil {
			t.Fatal(err)
		}
		defer release(memory[i].handle)
	}
	work := func(copies int) (*wgpu.Work, error) {
		return d.native.Submit("test", func(e *wgpu.Encoder) {
			for range copies {
				e.Copy(memory[0].handle, 0, memory[1].handle, 0, 32<<20)
			}
		})
	}
	for temporary, together := range map[int64]bool{maxSpare: true, maxSpare + 1: false} {
		var got bool
		for range 10 { // a machine that is busy may submit late
			q := stream.NewQueue(d)
			var first core.Event
			err := onDevice(temporary, func() (*wgpu.Work, error) { return work(32) })(q)
			if err == nil {
				first, err = q.Record()
			}
			if err == nil {
				err = onDevice(temporary, func() (*wgpu.Work, error) {
					done, _ := first.Done()
					got = !done
					return work(1)
				})(q)
			}
			if err := errors.Join(err, q.Close()); err != nil {
				t.Fatal(err)
			}
			if got || !together {
				break
			}
		}
		if got != together {
			t.Errorf("with %d bytes, the second piece of work is submitted before the first is done: %v", temporary, got)
		}
	}
}

// The call that enqueues work compiles its shaders, and not the submission.
func TestShadersAreCompiledBeforeTheWorkIsSubmitted(t *testing.T) {
	opened := open(t)
	defer closeDevice(t, opened)
	d := opened.(*device)
	d.picks = false
	var tensors [2]*core.Tensor
	for i := range tensors {
		var err error
		if tensors[i], err = core.Empty(t.Context(), d, core.TypeUint8, []int64{30, 30}, core.AllocOptions{}); err != nil {
			t.Fatal(err)
		}
		defer tensors[i].Close()
	}
	turned, err := tensors[1].Transpose()
	if err != nil {
		t.Fatal(err)
	}
	defer turned.Close()
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	gate := stream.NewEvent()
	defer gate.Complete(nil)
	if err := s.Wait(gate); err != nil {
		t.Fatal(err)
	}
	for i, enqueue := range []func() error{
		func() error { return d.Copy(t.Context(), s, tensors[0], turned) },
		func() error {
			return d.ConvertOn(t.Context(), s, tensors[0], tensors[1], core.Scaling{Scale: []float32{0.5}})
		},
	} {
		if err := enqueue(); err != nil {
			t.Fatal(err)
		}
		d.pipelines.Lock()
		n := len(d.pipelines.made)
		d.pipelines.Unlock()
		if n != i+1 {
			t.Errorf("%d shaders are compiled, want %d", n, i+1)
		}
	}
}
