package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

// joinFunc is core.Stack or core.Concat.
type joinFunc func(ctx context.Context, tensors []*core.Tensor, axis int, opts core.AllocOptions) (*core.Tensor, error)

var joins = []struct {
	name string
	call joinFunc
	axis int
}{{"Stack", core.Stack, 0}, {"Stack", core.Stack, 2}, {"Concat", core.Concat, 0}, {"Concat", core.Concat, 1}}

// uploaded makes views on d of what the tensors of the host hold: transposed ones, whose last
// write is unfinished work on s.
func uploaded(t *testing.T, d core.Device, s core.Stream, list []*core.Tensor) []*core.Tensor {
	t.Helper()
	keep := coretest.Keep(t)
	out := make([]*core.Tensor, len(list))
	for i, x := range list {
		turned := keep(x.Transpose())
		there := keep(core.Empty(t.Context(), d, x.DType(), turned.Shape(), core.AllocOptions{}))
		if err := d.Copy(t.Context(), s, there, turned); err != nil {
			t.Fatal(err)
		}
		out[i] = keep(there.Transpose())
	}
	return out
}

// same checks that got, which lies on d or the host, holds what want does.
func same(t *testing.T, what string, d core.Device, got, want *core.Tensor) {
	t.Helper()
	back := got
	if !got.DeviceID().Type.HostAccessible() {
		back, _ = to(t, got, host(t), exchange.Options{})
	}
	if err := back.WaitReady(t.Context()); err != nil {
		t.Errorf("%s on %v: %v", what, d.ID(), err)
	}
	equal, err := core.EqualBits(t.Context(), back, want)
	if err != nil || !equal {
		t.Errorf("%s on %v gives %v, %v; want %v", what, d.ID(), got, err, want)
	}
}

// rows makes tensors of the host with two columns for each: of so many rows, and different elements.
func rows(t *testing.T, extents ...int64) []*core.Tensor {
	t.Helper()
	list := make([]*core.Tensor, len(extents))
	for i, n := range extents {
		values := make([]int32, 3*n)
		for j := range values {
			values[j] = int32(100*i + j)
		}
		list[i] = slice(t, values, n, 3)
	}
	return list
}

// joinOn joins tensors on d by every way of the API, and compares with the host.
func joinOn(t *testing.T, d core.Device) {
	ctx, keep := t.Context(), coretest.Keep(t)
	filling, s := newStream(t, d), newStream(t, d)
	for _, j := range joins {
		list := rows(t, 4, 4, 4)
		if j.name == "Concat" && j.axis == 0 {
			list = rows(t, 4, 1, 0, 7)
		}
		want := keep(j.call(ctx, list, j.axis, core.AllocOptions{}))
		there := uploaded(t, d, filling, list)
		what := fmt.Sprintf("%s along axis %d", j.name, j.axis)
		got := keep(j.call(ctx, there, j.axis, core.AllocOptions{}))
		same(t, what, d, got, want)
		if got.DeviceID() != d.ID() || got.Device() != d {
			t.Errorf("%s on %v gives %v", what, d.ID(), got)
		}
		there = uploaded(t, d, filling, list)
		got = keep(j.call(ctx, there, j.axis, core.AllocOptions{Stream: s}))
		for _, x := range there { // may be closed before the copies are done
			x.Close()
		}
		same(t, what+" by a stream", d, got, want)
		mixed := uploaded(t, d, filling, list)
		mixed[1] = list[1]
		got = keep(j.call(ctx, mixed, j.axis, core.AllocOptions{Stream: s}))
		same(t, what+" with a tensor of the host", d, got, want)
		for _, k := range sources(d) {
			k.alloc.Stream = s
			got, err := j.call(ctx, list, j.axis, k.alloc)
			if err != nil {
				if k.name == "managed" && errors.Is(err, core.ErrNotSupported) {
					continue
				}
				t.Errorf("%s of tensors of the host into %s memory of %v: %v", what, k.name, d.ID(), err)
				continue
			}
			same(t, what+" into "+k.name+" memory", d, keep(got, nil), want)
			if k.alloc.Type != 0 && got.DeviceID().Type != k.alloc.Type {
				t.Errorf("%s into %s memory of %v gives %v", what, k.name, d.ID(), got)
			}
			if got, err = j.call(ctx, mixed, j.axis, k.alloc); err != nil {
				t.Errorf("%s into %s memory of %v: %v", what, k.name, d.ID(), err)
				continue
			}
			same(t, what+", also from a device, into "+k.name+" memory", d, keep(got, nil), want)
		}
	}
	packedOn(t, d)
}

// packedOn joins packed elements, which a device copies if they begin at bytes.
func packedOn(t *testing.T, d core.Device) {
	ctx, keep := t.Context(), coretest.Keep(t)
	bytes := slice(t, []uint8{0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb})
	b, err := bytes.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	even := keep(core.NewTensor(b, core.Spec{DType: core.TypeInt4, Shape: []int64{3, 4}}))
	odd := keep(core.NewTensor(b, core.Spec{DType: core.TypeInt4, Shape: []int64{4, 3}}))
	for _, axis := range []int{0, 1} {
		want := keep(core.Concat(ctx, []*core.Tensor{even, even}, axis, core.AllocOptions{}))
		there := keep(core.Empty(ctx, d, core.TypeInt4, even.Shape(), core.AllocOptions{}))
		if err := d.Copy(ctx, nil, there, even); err != nil {
			t.Fatal(err)
		}
		got := keep(core.Concat(ctx, []*core.Tensor{there, there}, axis, core.AllocOptions{}))
		same(t, "Concat of packed elements", d, got, want)
	}
	// Elements that end within a byte are copied as bytes.
	few := keep(core.NewTensor(b, core.Spec{DType: core.TypeInt4, Shape: []int64{1, 3}}))
	moved, _ := to(t, few, d, exchange.Options{})
	same(t, "Clone of packed elements", d, keep(moved.Clone(ctx)), few)
	begin := keep(core.Empty(ctx, d, core.TypeInt4, []int64{1, 2}, core.AllocOptions{}))
	if err := d.Copy(ctx, nil, begin, keep(few.Slice(1, 0, 2, 1))); err != nil {
		t.Fatal(err)
	}
	joined := keep(core.Concat(ctx, []*core.Tensor{begin, moved}, 1, core.AllocOptions{}))
	same(t, "Concat of packed elements that end within a byte", d, joined, keep(core.Concat(ctx, []*core.Tensor{keep(few.Slice(1, 0, 2, 1)), few}, 1, core.AllocOptions{})))
	// A conversion keeps what follows in the last byte.
	whole := keep(core.Empty(ctx, d, core.TypeUint8, []int64{2}, core.AllocOptions{}))
	coretest.Put(t, d, whole, []byte{0xff, 0xab})
	wb, err := whole.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Convert(ctx, keep(core.NewTensor(wb, core.Spec{DType: core.TypeInt4, Shape: []int64{3}})), slice(t, []int32{1, 2, 3})); err != nil {
		t.Errorf("%v: %v", d.ID(), err)
	}
	if got := coretest.Get(t, d, whole); got[0] != 0x21 || got[1] != 0xa3 {
		t.Errorf("a conversion to packed elements on %v leaves %x", d.ID(), got)
	}
	// Elements of two tensors share bytes where the host copies them.
	want := keep(core.Concat(ctx, []*core.Tensor{odd, odd}, 1, core.AllocOptions{}))
	there := keep(core.Empty(ctx, d, core.TypeInt4, odd.Shape(), core.AllocOptions{}))
	if err := d.Copy(ctx, nil, there, odd); err != nil {
		t.Fatal(err)
	}
	got, err := core.Concat(ctx, []*core.Tensor{there, there}, 1, core.AllocOptions{})
	if err == nil && d.ID().Type.HostAccessible() {
		same(t, "Concat of elements that share bytes", d, keep(got, nil), want)
	} else if !errors.Is(err, core.ErrLayout) {
		t.Errorf("Concat on %v of packed elements within a byte gives %v, %v", d.ID(), got, err)
	}
	for _, k := range sources(d) {
		k.alloc.Stream = newStream(t, d)
		for _, list := range [][]*core.Tensor{{few, moved}, {moved, few}} {
			got, err := core.Concat(ctx, list, 1, k.alloc)
			if err == nil {
				same(t, "Concat of elements of the host and of a device", d, keep(got, nil), keep(core.Concat(ctx, []*core.Tensor{few, few}, 1, core.AllocOptions{})))
			} else if !errors.Is(err, core.ErrLayout) && !errors.Is(err, core.ErrNotSupported) {
				t.Errorf("Concat on %v of packed elements within a byte gives %v, %v", d.ID(), got, err)
			}
		}
	}
}

func TestStackOnEveryDevice(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for _, d := range openAll(t, 1) {
		t.Run(d.ID().String(), func(t *testing.T) { joinOn(t, d) })
	}
}

// single is a simulated device that copies one tensor at a time.
type single struct{ *coretest.Device }

type singleStream struct {
	*coretest.Stream
	device single
}

func (s singleStream) Device() core.Device { return s.device }

func (d single) Properties() core.Properties {
	p := d.Device.Properties()
	p.Capabilities &^= core.CapBatchCopy
	return p
}

func (d single) Alloc(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	o.Stream = nil
	m, err := d.Device.Alloc(ctx, size, o)
	m.Device = d
	return m, err
}

func (d single) NewStream(ctx context.Context) (core.Stream, error) {
	s, err := d.Device.NewStream(ctx)
	if err != nil {
		return nil, err
	}
	return singleStream{s.(*coretest.Stream), d}, nil
}

func (d single) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	if own, ok := s.(singleStream); ok {
		s = own.Stream
	}
	return d.Device.Copy(ctx, s, dst, src)
}

// The same on simulated devices, whose work runs as late as it may, with and without batches of copies.
func TestStackOnSimulatedDevices(t *testing.T) {
	for name, o := range map[string]coretest.Options{"addresses": {}, "handles": {Opaque: true}, "the host waits": {HostWaits: true}} {
		t.Run(name, func(t *testing.T) {
			_, d := slowDevice(t, o)
			joinOn(t, d)
			joinOn(t, single{d.(*coretest.Device)})
		})
	}
}

// Whatever fails, and at whichever tensor, nothing stays open, and the error is that of the call.
func TestStackFails(t *testing.T) {
	for _, batches := range []bool{false, true} {
		for _, onStream := range []bool{false, true} {
			for _, call := range []string{"Alloc", "Copy", "CopyBatch", "Record", "Synchronize", "work"} {
				times := 0
				for n := 1; n <= 4 && failsAt(t, batches, onStream, call, n); n++ {
					times++
				}
				want := map[string]int{"Alloc": 1, "Copy": 3, "CopyBatch": 0, "Record": 3, "Synchronize": 3, "work": 3}[call]
				switch {
				case batches && (call == "Copy" || call == "CopyBatch"):
					want = 1 - want/3
				case onStream && call == "Synchronize":
					want = 0
				case batches && call == "Synchronize":
					want = 1
				}
				if times != want {
					t.Errorf("batches %v, on a stream %v: %s failed at %d calls, want %d", batches, onStream, call, times, want)
				}
			}
		}
	}
}

// failsAt stacks three tensors while the nth call fails, and reports whether there was such a call.
func failsAt(t *testing.T, batches, onStream bool, call string, n int) (fired bool) {
	ctx := t.Context()
	name := fmt.Sprintf("batches %v, on a stream %v, %s %d", batches, onStream, call, n)
	t.Run(name, func(t *testing.T) {
		coretest.CheckNoLeaks(t)
		b, d := slowDevice(t, coretest.Options{})
		if !batches {
			d = single{d.(*coretest.Device)}
		}
		opts := core.AllocOptions{}
		if onStream {
			opts.Stream = newStream(t, d)
		}
		list := uploaded(t, d, nil, rows(t, 4, 4, 4))
		failed := b.Fail(call, n, core.ErrDeviceLost)
		got, err := core.Stack(ctx, list, 1, opts)
		if err != nil && got != nil {
			t.Errorf("a tensor and %v", err)
		}
		if err == nil {
			err = got.WaitReady(ctx)
			defer got.Close()
		}
		fired = failed()
		switch {
		case fired && call != "Record": // without an event, the work is waited for
			if !errors.Is(err, core.ErrDeviceLost) {
				t.Errorf("Stack says %v", err)
			}
		case err != nil:
			t.Errorf("Stack fails: %v", err)
		case fired:
			same(t, "Stack", d, got, coretest.Keep(t)(core.Stack(ctx, rows(t, 4, 4, 4), 1, core.AllocOptions{})))
		}
	})
	return fired
}
