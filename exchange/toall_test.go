package exchange_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

const batch = core.CapBatchCopy

// toAll moves tensors, which the test closes at its end.
func toAll(t testing.TB, srcs []*core.Tensor, dst core.Device, o exchange.Options) ([]*core.Tensor, []exchange.Report) {
	t.Helper()
	results, reports, err := exchange.ToAll(t.Context(), srcs, dst, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, x := range results {
			_, _ = x.WaitReady(t.Context()), x.Close()
		}
	})
	return results, reports
}

// variety is tensors of several shapes, layouts and devices: those that own their memory, and views of them.
func variety(t *testing.T, a, b *fake) []*core.Tensor {
	t.Helper()
	keep := func(x *core.Tensor, err error) *core.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = x.Close() })
		return x
	}
	host := slice(t, []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 3, 4)
	bits := slice(t, []byte{0x21, 0x43, 0x65})
	buffer, err := bits.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	onA := keep(numbered(t, a, core.AllocOptions{}, 6, 5), nil)
	onB := keep(numbered(t, b, core.AllocOptions{}, 7), nil)
	list := []*core.Tensor{
		host, keep(host.Transpose()), keep(host.Slice(1, 1, 4, 2)), host, keep(host.AsReadOnly()),
		slice(t, []float64{}, 0, 3), slice(t, []uint8{9}), readOnlyHost(t, []int32{1, 2}),
		keep(core.NewTensor(buffer, core.Spec{DType: core.TypeInt4, Shape: []int64{5}})),
		onA, keep(onA.Slice(0, 1, 5, 2)), onB,
	}
	return list
}

// ToAll does what To does, whatever the devices and the options are.
func TestToAllIsToForEach(t *testing.T) {
	for name, c := range map[string]struct {
		a, b    core.Capabilities
		visible bool
	}{
		"copies":  {},
		"batches": {batch, batch, false},
		"peers":   {peer, peer, false},
		"sharing": {hostView | mapHost, hostView | mapHost, true},
	} {
		t.Run(name, func(t *testing.T) {
			coretest.CheckNoLeaks(t)
			h := host(t)
			a, b := newFakes(t, c.a, c.b)
			a.visible, b.visible = c.visible, c.visible
			srcs := variety(t, a, b)
			next := newStream(t, a)
			for _, dst := range []core.Device{a, h} {
				for _, o := range []exchange.Options{{}, {Copy: exchange.Always}, {Alloc: core.AllocOptions{}, Stream: next}} {
					if o.Stream != nil && dst != core.Device(a) {
						continue
					}
					want := make([]exchange.Report, len(srcs))
					for i, src := range srcs { // opens what is opened
						_, want[i] = to(t, src, dst, o)
					}
					for i, src := range srcs {
						_, want[i] = to(t, src, dst, o)
					}
					results, reports := toAll(t, srcs, dst, o)
					for i, x := range results {
						if err := x.WaitReady(t.Context()); err != nil {
							t.Fatal(err)
						}
						r, w := reports[i], want[i]
						if r.Mechanism != w.Mechanism || r.BytesCopied != w.BytesCopied || r.Opened != w.Opened || r.From != w.From || r.To != w.To ||
							!slices.Equal(r.Steps(), w.Steps()) || !slices.Equal(r.Refused(), w.Refused()) || r.Duration <= 0 {
							t.Errorf("%v to %v with %+v:\n%vwant, as To:\n%v", srcs[i], dst.ID(), o, r, w)
						}
						same, _ := to(t, srcs[i], dst, o)
						if !slices.Equal(x.Shape(), srcs[i].Shape()) || !slices.Equal(x.Layout().AppendStrides(nil), same.Layout().AppendStrides(nil)) || x.ReadOnly() != same.ReadOnly() || x.DType() != srcs[i].DType() {
							t.Errorf("%v became %v, and %v by To", srcs[i], x, same)
						}
						if !x.DType().SubByte() && !slices.Equal(onHost(t, x), onHost(t, srcs[i])) {
							t.Errorf("%v has other elements on %v", srcs[i], dst.ID())
						}
					}
				}
			}
		})
	}
}

// onHost returns the bytes of the elements in row-major order.
func onHost(t *testing.T, x *core.Tensor) []byte {
	t.Helper()
	got, _ := to(t, x, host(t), exchange.Options{Copy: exchange.Always})
	if err := got.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return rowMajor(t, got)
}

// Each result lives by itself, whatever happens to the others and to the sources.
func TestResultsOfToAllAreIndependent(t *testing.T) {
	coretest.CheckNoLeaks(t)
	a, _ := newFakes(t, 0, 0)
	var srcs []*core.Tensor
	for i := range int32(5) {
		x, err := core.FromSlice([]int32{i, i + 100})
		if err != nil {
			t.Fatal(err)
		}
		srcs = append(srcs, x)
	}
	results, _, err := exchange.ToAll(t.Context(), srcs, a, exchange.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range srcs {
		_ = x.Close()
	}
	for _, i := range []int32{3, 0, 4, 1, 2} {
		if have := read(t, a, results[i]); !slices.Equal(have, []int32{i, i + 100}) {
			t.Errorf("result %d holds %v", i, have)
		}
		_ = results[i].Close()
	}
}

func TestToAllOfNothing(t *testing.T) {
	results, reports, err := exchange.ToAll(t.Context(), nil, host(t), exchange.Options{})
	if len(results) != 0 || len(reports) != 0 || err != nil {
		t.Errorf("%v, %v, %v", results, reports, err)
	}
}

// If one tensor cannot be moved, none is, and the error says which.
func TestToAllMovesAllOrNone(t *testing.T) {
	values := func(t *testing.T) (list []*core.Tensor) {
		for i := range int32(6) {
			list = append(list, slice(t, []int32{i, i, i}))
		}
		return list
	}
	for _, c := range []struct {
		name string
		caps core.Capabilities
		o    exchange.Options
		set  func(t *testing.T, a *fake, srcs []*core.Tensor)
		want error
		at   int // the index that the error names, -1 for any
	}{
		{name: "a nil tensor", set: func(_ *testing.T, _ *fake, srcs []*core.Tensor) { srcs[2] = nil }, want: core.ErrInvalid, at: 2},
		{name: "a closed tensor", set: func(_ *testing.T, _ *fake, srcs []*core.Tensor) { _ = srcs[5].Close() }, want: core.ErrClosed, at: 5},
		{name: "no room", want: core.ErrOutOfMemory, at: 3, set: func(t *testing.T, a *fake, _ []*core.Tensor) {
			a.backend.Fail("Alloc", 4, core.ErrOutOfMemory) // of the copies together
			a.backend.Fail("Alloc", 7, core.ErrOutOfMemory) // and of the same tensor alone, behind three that go well
		}},
		{name: "no copy", want: core.ErrDeviceLost, at: 0, set: func(_ *testing.T, a *fake, _ []*core.Tensor) { a.fail("Copy", core.ErrDeviceLost) }},
		{name: "no batch and no copy", caps: batch, want: core.ErrDeviceLost, at: 0, set: func(_ *testing.T, a *fake, _ []*core.Tensor) {
			a.fail("CopyBatch", core.ErrOutOfMemory)
			a.fail("Copy", core.ErrDeviceLost)
		}},
		{name: "no way", o: exchange.Options{Copy: exchange.Never}, want: core.ErrNotSupported, at: 0},
		{name: "no way for one", caps: mapHost, o: exchange.Options{Copy: exchange.Never}, want: core.ErrNotSupported, at: 4, set: func(t *testing.T, a *fake, srcs []*core.Tensor) {
			for _, i := range []int{0, 1, 2, 3, 5} {
				srcs[i] = numbered(t, host(t), core.AllocOptions{}, 16)
				t.Cleanup(func() { _ = srcs[i].Close() })
			}
			srcs[4] = readOnlyHost(t, []int32{1})
		}},
		{name: "no stream", want: core.ErrOutOfMemory, at: -1, set: func(_ *testing.T, a *fake, _ []*core.Tensor) {
			for n := range 3 { // together, and two ways alone
				a.backend.Fail("NewStream", n+1, core.ErrOutOfMemory)
			}
		}},
		{name: "a stream that cannot wait", caps: mapHost, want: core.ErrDeviceLost, at: -1, set: func(t *testing.T, a *fake, srcs []*core.Tensor) {
			srcs[1] = numbered(t, a, core.AllocOptions{}, 3)
			t.Cleanup(func() { _ = srcs[1].Close() })
			s := newStream(t, a)
			if err := a.Copy(t.Context(), s, srcs[1], srcs[0]); err != nil {
				t.Fatal(err)
			}
			a.fail("Wait", core.ErrDeviceLost)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			coretest.CheckNoLeaks(t)
			a, _ := newFakes(t, c.caps, 0)
			srcs := values(t)
			o := c.o
			if c.name == "a stream that cannot wait" {
				o.Stream = newStream(t, a)
			}
			if c.set != nil {
				c.set(t, a, srcs)
			}
			results, reports, err := exchange.ToAll(t.Context(), srcs, a, o)
			var which *exchange.TensorError
			if !errors.Is(err, c.want) || !errors.As(err, &which) || c.at >= 0 && which.Index != c.at {
				t.Fatalf("the error is %v, want %v of tensor %d", err, c.want, c.at)
			}
			if results != nil || reports != nil {
				t.Errorf("and there are results: %v", results)
			}
			if typed := (*core.Error)(nil); !errors.As(err, &typed) {
				t.Errorf("the error is not typed: %v", err)
			}
		})
	}
}

// What concerns no tensor names none.
func TestToAllWithBadArguments(t *testing.T) {
	a, b := newFakes(t, 0, 0)
	x := slice(t, []int32{1})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		dst  core.Device
		o    exchange.Options
		want error
	}{
		{"a nil device", t.Context(), nil, exchange.Options{}, core.ErrInvalid},
		{"an unknown policy", t.Context(), a, exchange.Options{Copy: 7}, core.ErrInvalid},
		{"a stream of another device", t.Context(), a, exchange.Options{Stream: newStream(t, b)}, core.ErrDevice},
		{"a ctx that has ended", ended, a, exchange.Options{}, context.Canceled},
	} {
		for _, srcs := range [][]*core.Tensor{nil, {x}} {
			_, _, err := exchange.ToAll(c.ctx, srcs, c.dst, c.o)
			var which *exchange.TensorError
			if !errors.Is(err, c.want) || errors.As(err, &which) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
		}
	}
}

// A batch that fails is made up for by copies one at a time.
func TestToAllWithoutTheBatch(t *testing.T) {
	coretest.CheckNoLeaks(t)
	a, _ := newFakes(t, batch, 0)
	a.fail("CopyBatch", core.ErrOutOfMemory)
	srcs := []*core.Tensor{slice(t, []int32{1, 2}), slice(t, []int32{3, 4})}
	results, reports := toAll(t, srcs, a, exchange.Options{})
	for i, x := range results {
		if have := read(t, a, x); !slices.Equal(have, []int32{int32(2*i + 1), int32(2*i + 2)}) || reports[i].Mechanism != exchange.Direct {
			t.Errorf("result %d holds %v by %v", i, have, reports[i].Mechanism)
		}
	}
	if a.called("CopyBatch") != 1 {
		t.Error("no batch was tried")
	}
}

// A source whose last write failed is named, and does not keep the others from being copied together.
func TestToAllNamesTheSourceThatFailed(t *testing.T) {
	coretest.CheckNoLeaks(t)
	b, d := slowDevice(t, coretest.Options{})
	h := host(t)
	var srcs []*core.Tensor
	for range 4 {
		x := numbered(t, d, core.AllocOptions{}, 10)
		defer x.Close()
		srcs = append(srcs, x)
	}
	failure := errors.New("the write failed")
	b.Fail("work", 1, failure)
	s := newStream(t, d)
	if err := d.Copy(t.Context(), s, srcs[2], srcs[0]); err != nil {
		t.Fatal(err)
	}
	_ = s.Synchronize(t.Context())
	_, _, err := exchange.ToAll(t.Context(), srcs, h, exchange.Options{Copy: exchange.Always})
	var which *exchange.TensorError
	if !errors.Is(err, failure) || !errors.As(err, &which) || which.Index != 2 {
		t.Errorf("the error is %v", err)
	}
}

// The next stream waits once for what was copied together, and the source's stream counts as the writer of all.
func TestToAllWaitsOnce(t *testing.T) {
	coretest.CheckNoLeaks(t)
	a, b := newFakes(t, batch, batch)
	h := host(t)
	writer, next := newStream(t, a), newStream(t, b)
	var srcs []*core.Tensor
	for i := range int32(20) {
		x := numbered(t, a, core.AllocOptions{}, 3)
		defer x.Close()
		other, err := core.NewTensor(bufferOf(t, x), core.Spec{DType: core.TypeInt32, Shape: []int64{3}})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		content := slice(t, []int32{i, i, i})
		// Work that leaves no event on the tensor.
		if err := writer.(*fakeStream).Enqueue(func() error { return coretest.CopyNaive(other, content) }); err != nil {
			t.Fatal(err)
		}
		srcs = append(srcs, x)
	}
	results, _ := toAll(t, srcs, h, exchange.Options{SourceStream: writer})
	for i, x := range results {
		if have, err := core.ToSlice[int32](t.Context(), x); err != nil || !slices.Equal(have, []int32{int32(i), int32(i), int32(i)}) {
			t.Errorf("result %d: %v, %v", i, have, err)
		}
	}
	waits := b.called("Wait")
	onB, reports := toAll(t, results, b, exchange.Options{Copy: exchange.Always, Stream: next})
	if batches, n := b.called("CopyBatch"), b.called("Wait")-waits; batches != 1 || n > 1 {
		t.Errorf("%d batches, for which the next stream waited %d times; the copies by themselves were %d", batches, n, b.called("Copy"))
	}
	for i := range onB {
		if w := reports[i].Wait; w != stream.StreamWait && w != stream.NoWait || w != reports[0].Wait {
			t.Errorf("result %d is waited for by %v, the first by %v", i, w, reports[0].Wait)
		}
	}
}

func bufferOf(t *testing.T, x *core.Tensor) *core.Buffer {
	t.Helper()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
