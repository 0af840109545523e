package cpu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/stream"
)

// values is a tensor of s that the test's end closes.
func values[T core.Element](t testing.TB, s []T, shape ...int64) *core.Tensor {
	t.Helper()
	return keep(t)(core.FromSlice(s, shape...))
}

// keep closes a tensor at the test's end.
func keep(t testing.TB) func(*core.Tensor, error) *core.Tensor {
	return func(x *core.Tensor, err error) *core.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = x.Close() })
		return x
	}
}

func (d testDevice) newStream() core.Stream {
	d.t.Helper()
	s, err := d.NewStream(ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = s.Close() })
	return s
}

// elements lists what x holds now, in row-major order, though it may be written to still.
func elements[T core.Element](t testing.TB, x *core.Tensor) []T {
	t.Helper()
	all, err := core.AllWithoutWaiting[T](x)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(all)
}

// sequence is 0, 1, 2...
func sequence(n int64) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}

// randomView cuts, reverses and permutes a tensor of a larger shape so that the
// result has the shape asked for.
func randomView(t testing.TB, rng *rand.Rand, shape []int64) *core.Tensor {
	t.Helper()
	order := rng.Perm(len(shape))
	stored := make([]int64, len(shape))
	back := make([]int, len(shape))
	for i, axis := range order {
		stored[i] = 2*shape[axis] + 1
		back[axis] = i
	}
	l, err := core.NewLayout(stored...)
	if err != nil {
		t.Fatal(err)
	}
	x := values(t, sequence(l.NumElements()), stored...)
	for i, axis := range order {
		n := shape[axis]
		start, stop, step := int64(0), n, int64(1)
		switch rng.IntN(3) {
		case 1:
			start, stop, step = 1, 2*n+1, 2
		case 2:
			start, stop, step = n, 0, -1
		}
		x = keep(t)(x.Slice(i, start, stop, step))
	}
	return keep(t)(x.Permute(back...))
}

func TestCopyOfAnyLayout(t *testing.T) {
	d := open(t)
	s := d.newStream()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][]int64{{}, {0}, {1}, {7}, {3, 0, 2}, {5, 4}, {64, 48}, {3, 1, 6}, {2, 3, 4, 5}} {
		for range 8 {
			for _, on := range []core.Stream{nil, s} {
				dst, src := randomView(t, rng, shape), randomView(t, rng, shape)
				want := elements[int32](t, src)
				if err := d.Copy(ctx, on, dst, src); err != nil {
					t.Fatal(err)
				}
				if err := dst.WaitReady(ctx); err != nil {
					t.Fatal(err)
				}
				if got := elements[int32](t, dst); !slices.Equal(got, want) {
					t.Fatalf("copy of %v to %v:\n%v, want\n%v", src, dst, got, want)
				}
			}
		}
	}
}

func TestCopyOfElementsNarrowerThanAByte(t *testing.T) {
	d := open(t)
	for _, c := range []struct {
		rule           string
		dtype          core.DType
		flags          core.Flags
		src, dst, want []uint8
		strides        []int64 // of src
		shape          []int64
	}{
		{"packed", core.TypeInt4, 0, []uint8{0x21, 0x43}, []uint8{0, 0, 0xff}, []uint8{0x21, 0x43, 0xff}, []int64{1}, []int64{4}},
		{"packed, reversed", core.TypeInt4, 0, []uint8{0x21, 0x43}, []uint8{0, 0xf0}, []uint8{0x23, 0xf1}, []int64{-1}, []int64{3}},
		{"packed, an odd count keeps the neighbour", core.TypeInt4, 0, []uint8{0x21, 0x43}, []uint8{0, 0xf0}, []uint8{0x21, 0xf3}, []int64{1}, []int64{3}},
		{"packed, every second", core.TypeInt4, 0, []uint8{0x21, 0x43}, []uint8{0}, []uint8{0x31}, []int64{2}, []int64{2}},
		{"packed, repeated", core.TypeInt4, 0, []uint8{0x05}, []uint8{0, 0}, []uint8{0x55, 0x55}, []int64{0}, []int64{4}},
		{"padded, every second", core.TypeInt4, core.FlagSubBytePadded, []uint8{1, 2, 3, 4}, []uint8{0, 0}, []uint8{1, 3}, []int64{2}, []int64{2}},
		{"whole bytes of two lanes", core.DType{Code: typecode.Int, Bits: 4, Lanes: 2}, 0, []uint8{0x21, 0x43, 0x65}, []uint8{0, 0}, []uint8{0x21, 0x65}, []int64{2}, []int64{2}},
		{"lanes that end within a byte", core.DType{Code: typecode.Int, Bits: 4, Lanes: 3}, 0, []uint8{0x21, 0x43, 0x65}, []uint8{0, 0, 0}, []uint8{0x21, 0x43, 0x65}, []int64{1}, []int64{2}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			view := func(s []uint8, strides []int64) *core.Tensor {
				b, err := values(t, s).Buffer()
				if err != nil {
					t.Fatal(err)
				}
				first := int64(0)
				if strides != nil && strides[0] < 0 {
					first = int64(len(s)) - 1
				}
				return keep(t)(core.NewTensor(b, core.Spec{DType: c.dtype, Shape: c.shape, Strides: strides, Offset: first, Flags: c.flags}))
			}
			if err := d.Copy(ctx, nil, view(c.dst, nil), view(c.src, c.strides)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(c.dst, c.want) {
				t.Errorf("got %#x, want %#x", c.dst, c.want)
			}
		})
	}
}

func TestCopyRefusesWhatItCannotReach(t *testing.T) {
	d, other := open(t), open(t)
	here, there := values(t, []uint8{1}), keep(t)(core.Wrap(
		core.Memory{ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: 4096, Size: 1},
		core.Spec{DType: core.TypeUint8, Shape: []int64{1}}))
	foreign := stream.NewQueue(d)
	defer func() { _ = foreign.Close() }()
	for _, c := range []struct {
		rule     string
		on       core.Stream
		dst, src *core.Tensor
	}{
		{"dst on a device", nil, there, here},
		{"src on a device", nil, here, there},
		{"the stream of another opening", other.newStream(), here, values(t, []uint8{2})},
		{"a stream that the device did not make", foreign, here, values(t, []uint8{2})},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if err := d.Copy(ctx, c.on, c.dst, c.src); !errors.Is(err, core.ErrDevice) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCopyWithoutAStreamWaits proves the order for a caller that has no stream:
// after the last write of src, after all uses of dst.
func TestCopyWithoutAStreamWaits(t *testing.T) {
	for _, c := range []struct {
		rule string
		note func(dst, src *core.Buffer, e core.Event)
		fail bool // the work waited for fails
		want bool // and so does the copy
	}{
		{"for the write of src", func(_, src *core.Buffer, e core.Event) { src.Wrote(e) }, false, false},
		{"and fails with the write of src", func(_, src *core.Buffer, e core.Event) { src.Wrote(e) }, true, true},
		{"for a use of dst", func(dst, _ *core.Buffer, e core.Event) { dst.Used(e) }, false, false},
		{"but does not mind a failed write that it replaces", func(dst, _ *core.Buffer, e core.Event) { dst.Wrote(e) }, true, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			d := open(t)
			dst, src := values(t, []int32{0}), values(t, []int32{1})
			to, _ := dst.Buffer()
			from, _ := src.Buffer()
			e := stream.NewEvent()
			c.note(to, from, e)

			short, cancel := context.WithCancel(ctx)
			copied := make(chan error)
			go func() { copied <- d.Copy(short, nil, dst, src) }()
			cancel()
			if err := <-copied; !errors.Is(err, context.Canceled) {
				t.Fatalf("a copy that has to wait for longer than its context: %v", err)
			}
			if got := elements[int32](t, dst)[0]; got != 0 {
				t.Fatalf("copied too early: %d", got)
			}

			var failure error
			if c.fail {
				failure = errors.New("failed work")
			}
			go func() { copied <- d.Copy(ctx, nil, dst, src) }()
			e.Complete(failure)
			if err := <-copied; (err != nil) != c.want || !errors.Is(err, failure) && c.want {
				t.Fatalf("got %v", err)
			}
			if err := dst.WaitReady(ctx); !c.want && err != nil {
				t.Errorf("dst was written, but says %v", err)
			}
		})
	}
}

func TestCopyKeepsClosedTensorsUntilItIsDone(t *testing.T) {
	d := open(t)
	s := d.newStream()
	gate := stream.NewEvent()
	if err := s.Wait(gate); err != nil {
		t.Fatal(err)
	}
	dst := values(t, make([]int32, 100))
	src, err := core.Empty(ctx, d.Device, core.TypeInt32, []int64{100}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	memory, err := core.Mutable[int32](src)
	if err != nil {
		t.Fatal(err)
	}
	copy(memory, sequence(100))
	if err := d.Copy(ctx, s, dst, src); err != nil {
		t.Fatal(err)
	}
	_ = src.Close()
	again := d.alloc(400)
	clear(bytesOf(again))
	gate.Complete(nil)
	if err := s.Synchronize(ctx); err != nil {
		t.Fatal(err)
	}
	if got := elements[int32](t, dst); !slices.Equal(got, sequence(100)) {
		t.Errorf("src was used again before it was read: %v", got)
	}
	again.Free()
}

func TestCopyBetweenOpenedDevices(t *testing.T) {
	a, b := open(t), open(t)
	src := keep(t)(core.Empty(ctx, a.Device, core.TypeInt32, []int64{4}, core.AllocOptions{}))
	dst := keep(t)(core.Empty(ctx, b.Device, core.TypeInt32, []int64{4}, core.AllocOptions{}))
	for _, step := range [][2]*core.Tensor{{src, values(t, []int32{1, 2, 3, 4})}, {dst, src}} {
		if err := a.Copy(ctx, nil, step[0], step[1]); err != nil {
			t.Fatal(err)
		}
	}
	if got := elements[int32](t, dst); !slices.Equal(got, []int32{1, 2, 3, 4}) {
		t.Errorf("got %v", got)
	}
}

func BenchmarkCopy(b *testing.B) {
	d := open(b)
	s := d.newStream()
	for _, n := range []int64{64, 64 << 10, 256 << 10, 2 << 20, 64 << 20} {
		dst := keep(b)(core.Empty(ctx, d.Device, core.TypeUint8, []int64{n}, core.AllocOptions{}))
		src := keep(b)(core.Empty(ctx, d.Device, core.TypeUint8, []int64{n}, core.AllocOptions{}))
		if p, err := core.Mutable[uint8](src); err == nil {
			for i := range p { // memory that was never written is one page of zeros, over and over
				p[i] = 1
			}
		}
		for name, on := range map[string]core.Stream{"caller": nil, "stream": s} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(n)
				b.ReportAllocs()
				for b.Loop() {
					if err := d.Copy(ctx, on, dst, src); err != nil {
						b.Fatal(err)
					}
					if on != nil {
						if err := on.Synchronize(ctx); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
