//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"maps"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// matrix allocates memory of a type, as n rows of m bytes.
func matrix(t testing.TB, d core.Device, kind core.DeviceType, n, m int64) *core.Tensor {
	t.Helper()
	return keep(t)(core.Empty(t.Context(), d, core.TypeUint8, []int64{n, m}, core.AllocOptions{Type: kind}))
}

// uses returns how often f calls each function of the driver that copies bytes.
func uses(t *testing.T, f func() error) map[string]int {
	t.Helper()
	sim := simulator(t)
	before := sim.Calls()
	if err := f(); err != nil {
		t.Fatal(err)
	}
	made := make(map[string]int)
	for _, call := range []string{"cuMemcpyAsync", "cuMemcpy3DAsync", "cuLaunchKernel", "cuLaunchHostFunc"} {
		if n := sim.Count(call) - before[call]; n > 0 {
			made[call] = n
		}
	}
	return made
}

func TestEachCopyTakesTheShortestWay(t *testing.T) {
	simulator(t)
	other := gpusimtest.Start(t)
	d := opened(t)
	s := newStream(t, d)
	const n, m = 64, 1024
	card, card2 := matrix(t, d, core.DeviceCUDA, n, m), matrix(t, d, core.DeviceCUDA, n, m)
	pinned, managed := matrix(t, d, core.DeviceCUDAHost, n, m), matrix(t, d, core.DeviceCUDAManaged, n, m)
	pageable := keep(t)(core.FromSlice(make([]byte, n*m), n, m))
	registered := keep(t)(core.FromSlice(other.Pinned(n*m), n, m))
	half := func(x *core.Tensor) *core.Tensor { return keep(t)(x.Slice(1, 0, m/2, 1)) }
	turned := func(x *core.Tensor) *core.Tensor { return keep(t)(keep(t)(x.Slice(1, 0, n, 1)).Transpose()) }
	square := func(kind core.DeviceType) *core.Tensor { return matrix(t, d, kind, n, n) }
	cube := func(x *core.Tensor) *core.Tensor {
		return keep(t)(keep(t)(keep(t)(x.Reshape(4, n/4, m)).Slice(1, 0, 3, 1)).Slice(2, 0, m/2, 1))
	}
	for _, c := range []struct {
		what     string
		dst, src *core.Tensor
		want     map[string]int
	}{
		{"card to card", card, card2, map[string]int{"cuMemcpyAsync": 1}},
		{"pinned to card", card, pinned, map[string]int{"cuMemcpyAsync": 1}},
		{"card to pinned", pinned, card, map[string]int{"cuMemcpyAsync": 1}},
		{"managed to card", card, managed, map[string]int{"cuMemcpyAsync": 1}},
		{"registered to card", card, registered, map[string]int{"cuMemcpyAsync": 1}},
		{"card to registered", registered, card, map[string]int{"cuMemcpyAsync": 1}},
		{"pageable to card", card, pageable, map[string]int{"cuMemcpyAsync": 1, "cuLaunchHostFunc": 1}},
		{"card to pageable", pageable, card, map[string]int{"cuMemcpyAsync": 1, "cuLaunchHostFunc": 1}},
		{"half of each row", half(card), half(card2), map[string]int{"cuMemcpy3DAsync": 1}},
		{"half of each row to pinned", half(pinned), half(card), map[string]int{"cuMemcpy3DAsync": 1}},
		{"half of each row from registered", half(card), half(registered), map[string]int{"cuMemcpy3DAsync": 1}},
		{"a block of rows", cube(card), cube(card2), map[string]int{"cuMemcpy3DAsync": 1}},
		{"turned", square(core.DeviceCUDA), turned(card2), map[string]int{"cuLaunchKernel": 1}},
		{"turned to pinned", square(core.DeviceCUDAHost), turned(card), map[string]int{"cuLaunchKernel": 1, "cuMemcpyAsync": 1}},
		{"turned from pageable", square(core.DeviceCUDA), turned(pageable), map[string]int{"cuLaunchHostFunc": 1, "cuMemcpyAsync": 1}},
	} {
		got := uses(t, func() error { return d.Copy(t.Context(), s, c.dst, c.src) })
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
		if err := s.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// This is also true for memory that is not pinned, of which more is copied than is staged at once.
func TestNoCopyOnAStreamWaitsForIt(t *testing.T) {
	sim := simulator(t)
	for _, size := range []int{1, 5000, staging.PieceBytes, staging.PieceBytes + 1, 3*staging.PieceBytes + 77} {
		d := opened(t)
		s := newStream(t, d)
		want := pattern(size, 3)
		from, got := bytes.Clone(want), make([]byte, size)
		src, dst := keep(t)(core.FromSlice(from)), keep(t)(core.FromSlice(got))
		x := row(t, d, int64(size), core.AllocOptions{})
		sim.Hold(true)
		for _, c := range [][2]*core.Tensor{{x, src}, {dst, x}} {
			if err := d.Copy(t.Context(), s, c[0], c[1]); err != nil {
				t.Fatal(err)
			}
		}
		e, err := s.Record()
		if err != nil {
			t.Fatal(err)
		}
		if done, _ := e.Done(); done {
			t.Errorf("%d bytes: the copies were done while the stream was held", size)
		}
		sim.Hold(false)
		if err := e.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes: a copy to the device and back changed them", size)
		}
	}
}

func TestCopiesWithoutAStreamDoNotWaitForStreams(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	s := newStream(t, d)
	own, imported := newTimeline(t, d)
	if err := imported.WaitOn(s, 1); err != nil {
		t.Fatal(err)
	}
	big := row(t, d, 3*staging.PieceBytes, core.AllocOptions{})
	src := keep(t)(core.FromSlice(make([]byte, 3*staging.PieceBytes)))
	if err := d.Copy(t.Context(), s, big, src); err != nil { // this copy borrows a stream, which waits too
		t.Fatal(err)
	}
	x := row(t, d, 3*staging.PieceBytes, core.AllocOptions{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			want := pattern(3*staging.PieceBytes, 5)
			if err := d.Copy(t.Context(), nil, keep(t)(core.Empty(t.Context(), d, core.TypeUint8, x.Shape(), core.AllocOptions{})), keep(t)(core.FromSlice(want))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := own.Timeline.Signal(1); err != nil {
		t.Fatal(err)
	}
	if err := s.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	sim.Hold(false)
}

func TestATensorWithAWrongDeviceTypeIsRefused(t *testing.T) {
	simulator(t)
	d := opened(t)
	x := row(t, d, 4096, core.AllocOptions{})
	for what, at := range map[string]struct {
		place   core.DeviceType
		address uintptr
		bytes   int64
	}{
		"no memory of CUDA":        {core.DeviceCUDA, 0x7000_0000_0000, 4096},
		"more than there is":       {core.DeviceCUDA, addressOf(t, x), 1 << 20},
		"memory of another kind":   {core.DeviceCUDAHost, addressOf(t, x), 4096},
		"managed, where it is not": {core.DeviceCUDAManaged, addressOf(t, x), 4096},
		"pinned, where nothing is": {core.DeviceCUDAHost, 0x7000_0000_0000, 4096},
	} {
		m := core.Memory{ID: core.DeviceID{Type: at.place}, Handle: at.address, Size: at.bytes}
		y := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{at.bytes}}))
		z := keep(t)(core.FromSlice(make([]byte, at.bytes)))
		wantError(t, d.Copy(t.Context(), nil, z, y), core.ErrInvalid, what)
	}
}

// Without a stream, the host copies at once. It must wait for earlier work itself.
func TestACopyWithoutAStreamComesAfterTheReadersOfWhatItOverwrites(t *testing.T) {
	d := opened(t)
	s := newStream(t, d)
	pinned, x := row(t, d, 4000, core.AllocOptions{Type: core.DeviceCUDAHost}), row(t, d, 4000, core.AllocOptions{})
	put(t, d, pinned, pattern(4000, 1))
	if err := d.Copy(t.Context(), s, x, pinned); err != nil { // late
		t.Fatal(err)
	}
	host := buffer(t, keep(t)(core.FromSlice(pattern(4000, 2))))
	backwards := keep(t)(core.NewTensor(host, core.Spec{DType: core.TypeUint8, Shape: []int64{4000}, Strides: []int64{-1}, Offset: 3999}))
	if err := d.Copy(t.Context(), nil, pinned, backwards); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(get(t, d, x), pattern(4000, 1)) {
		t.Error("the host overwrote bytes before the stream had read them")
	}
}
