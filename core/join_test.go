package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// scattered is a tensor with random elements and strides, whose memory is known.
type scattered struct {
	*core.Tensor
	memory []byte
}

// scatter makes a tensor whose axes lie in a random order, with gaps, backwards or repeated.
func scatter(t *testing.T, r *rand.Rand, d core.DType, flags core.Flags, shape []int64) scattered {
	t.Helper()
	strides, step, first := make([]int64, len(shape)), int64(1), int64(0)
	for _, axis := range r.Perm(len(shape)) {
		strides[axis] = step * (1 + r.Int64N(2))
		switch n := max(shape[axis], 1); r.IntN(4) {
		case 0:
			strides[axis] = 0
		case 1: // backwards; packed elements begin at a byte if they are 8 elements apart
			first += (n + 7) / 8 * 8 * strides[axis]
			step *= 2 * (n + 8)
			strides[axis] = -strides[axis]
		default:
			step *= 2 * n
		}
	}
	size, err := d.Size(8, flags&core.FlagSubBytePadded != 0)
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, (step+first+8)*size/8+16)
	for i := range memory {
		memory[i] = byte(r.Uint32())
	}
	base, err := core.FromSlice(memory)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	x, err := core.NewTensor(bufferOf(t, base), core.Spec{DType: d, Shape: shape, Strides: strides, Offset: first * size / 8, Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return scattered{x, memory}
}

// element returns the bits of the element at index.
func (x scattered) element(index []int64) string {
	width, _ := x.DType().Size(8, x.Padded()) // bits of one element
	bit := 8 * x.Offset()
	for axis, i := range index {
		bit += i * x.Layout().Stride(axis) * width
	}
	return bitsOf(x.memory, bit, width)
}

func bitsOf(memory []byte, bit, n int64) string {
	var s strings.Builder
	for i := range n {
		s.WriteByte('0' + memory[(bit+i)>>3]>>((bit+i)&7)&1)
	}
	return s.String()
}

// joined checks that got consists of the elements that at names by the index of an element.
func joined(t *testing.T, got *core.Tensor, shape []int64, at func(index []int64) string) {
	t.Helper()
	if !slices.Equal(got.Shape(), shape) || !got.Layout().IsContiguous() || got.ReadOnly() {
		t.Fatalf("the result is %v, want shape %v", got, shape)
	}
	memory := bytesOf(t, got)
	width, _ := got.DType().Size(8, got.Padded())
	n := int64(0)
	naive{shape, func(index []int64) int64 {
		if have, want := bitsOf(memory, n*width, width), at(slices.Clone(index)); have != want {
			t.Errorf("the element at %v of %v is %s, want %s", index, got, have, want)
		}
		n++
		return 0
	}}.cells()
}

var joinTypes = []struct {
	dtype string
	flags core.Flags
}{
	{"uint8", 0}, {"int16", 0}, {"float32", 0}, {"complex128", 0}, {"int4", 0}, {"int4", core.FlagSubBytePadded}, {"uint2", 0},
	{"float6_e2m3fn", 0}, {"int4x2", 0}, {"int4x3", 0}, {"int4x3", core.FlagSubBytePadded}, {"uint1", 0},
}

// Stack and Concat put each element where the definition says, for all types, strides and
// axes, also where packed elements share a byte with those of another tensor.
func TestStackAndConcatAgreeWithTheDefinition(t *testing.T) {
	ctx := t.Context()
	r := rand.New(rand.NewPCG(7, 7))
	for round := range 1500 {
		kind := joinTypes[round%len(joinTypes)]
		d, err := core.ParseDType(kind.dtype)
		if err != nil {
			t.Fatal(err)
		}
		shape := make([]int64, r.IntN(4))
		for i := range shape {
			shape[i] = r.Int64N(5)
			if r.IntN(3) > 0 {
				shape[i]++
			}
		}
		list := make([]*core.Tensor, 1+r.IntN(4))
		parts := make([]scattered, len(list))
		axis := r.IntN(len(shape) + 1)
		concat := axis < len(shape) && r.IntN(2) == 0
		whole, starts := slices.Clone(shape), []int64{}
		if concat {
			whole[axis] = 0
		} else {
			whole = slices.Insert(whole, axis, int64(len(list)))
		}
		for i := range list {
			own := slices.Clone(shape)
			if concat {
				own[axis] = r.Int64N(4)
				starts = append(starts, whole[axis])
				whole[axis] += own[axis]
			}
			if parts[i] = scatter(t, r, d, kind.flags, own); i > 0 && !concat && r.IntN(4) == 0 {
				parts[i] = parts[0] // the same tensor twice
			}
			list[i] = parts[i].Tensor
		}
		if concat {
			got, err := core.Concat(ctx, list, axis, core.AllocOptions{})
			if err != nil {
				t.Fatalf("Concat of %v along axis %d: %v", list, axis, err)
			}
			joined(t, got, whole, func(index []int64) string {
				i := len(starts) - 1
				for index[axis] < starts[i] || index[axis]-starts[i] >= parts[i].Shape()[axis] {
					i--
				}
				index[axis] -= starts[i]
				return parts[i].element(index)
			})
			got.Close()
		} else {
			got, err := core.Stack(ctx, list, axis, core.AllocOptions{})
			if err != nil {
				t.Fatalf("Stack of %v along axis %d: %v", list, axis, err)
			}
			joined(t, got, whole, func(index []int64) string {
				i := index[axis]
				return parts[i].element(slices.Delete(index, axis, axis+1))
			})
			got.Close()
		}
	}
}

// Lanes of fewer than 8 bits are copied also if an element has more than a byte.
func TestCloneOfPackedLanes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for _, name := range []string{"int4x3", "uint2x5", "uint1x9", "float6_e2m3fnx3"} {
		d, err := core.ParseDType(name)
		if err != nil {
			t.Fatal(err)
		}
		x := scatter(t, r, d, 0, []int64{3, 5})
		got, err := x.Clone(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		joined(t, got, []int64{3, 5}, x.element)
		got.Close()
	}
}

func TestStackAndConcatRefuse(t *testing.T) {
	ctx := t.Context()
	keep := keeper(t)
	type list = []*core.Tensor
	a := keep(core.FromSlice([]int32{1, 2, 3, 4, 5, 6}, 2, 3))
	b := keep(core.FromSlice([]int32{1, 2}, 1, 2))
	turned := keep(a.Transpose())
	floats := keep(core.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
	scalar := keep(core.FromSlice([]int32{1}))
	scalar = keep(scalar.Index(0, 0))
	closed, err := a.Share()
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	packed := bytesTensor(t, core.TypeInt4, []byte{1}, []int64{2}, 0)
	padded := bytesTensor(t, core.TypeInt4, []byte{1, 2}, []int64{2}, core.FlagSubBytePadded)
	one := make([]int64, core.MaxRank)
	for i := range one {
		one[i] = 1
	}
	deep := keep(scalar.Reshape(one...))
	huge := keep(core.FromSlice([]uint8{}, math.MaxInt64/2+1, 0))
	wide := keep(scalar.Reshape(1))
	wide = keep(wide.Broadcast(math.MaxInt64 / 2))
	card := over(t, core.Memory{ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: 4096}, core.Spec{DType: core.TypeInt32, Shape: []int64{2, 3}})
	for _, c := range []struct {
		name    string
		tensors list
		axis    int
		opts    core.AllocOptions
		stack   error // nil if Stack is not called
		concat  error
	}{
		{"no tensors", nil, 0, core.AllocOptions{}, core.ErrInvalid, core.ErrInvalid},
		{"a nil tensor", list{a, nil}, 0, core.AllocOptions{}, core.ErrInvalid, core.ErrInvalid},
		{"the zero Tensor", list{a, new(core.Tensor)}, 0, core.AllocOptions{}, core.ErrInvalid, core.ErrInvalid},
		{"a closed tensor", list{a, closed}, 0, core.AllocOptions{}, core.ErrClosed, core.ErrClosed},
		{"two types", list{a, floats}, 0, core.AllocOptions{}, core.ErrDType, core.ErrDType},
		{"packed and padded", list{packed, padded}, 0, core.AllocOptions{}, core.ErrDType, core.ErrDType},
		{"two shapes", list{a, turned}, 0, core.AllocOptions{}, core.ErrLayout, core.ErrLayout},
		{"two ranks", list{a, scalar}, 0, core.AllocOptions{}, core.ErrLayout, core.ErrLayout},
		{"another extent", list{a, b}, 0, core.AllocOptions{}, core.ErrLayout, core.ErrLayout},
		{"a negative axis", list{a}, -1, core.AllocOptions{}, core.ErrLayout, core.ErrLayout},
		{"an axis too many", list{a}, 3, core.AllocOptions{}, core.ErrLayout, core.ErrLayout},
		{"a new axis", list{a}, 2, core.AllocOptions{}, nil, core.ErrLayout},
		{"no axes", list{scalar, scalar}, 0, core.AllocOptions{}, nil, core.ErrLayout},
		{"too many axes", list{deep}, 0, core.AllocOptions{}, core.ErrLayout, nil},
		{"extents without elements", list{huge, huge}, 0, core.AllocOptions{}, nil, core.ErrLayout},
		{"more elements than an int64 counts", list{wide, wide, wide}, 0, core.AllocOptions{}, core.ErrLayout, core.ErrLayout},
		{"more bytes than an int64 counts", list{wide}, 0, core.AllocOptions{}, core.ErrLayout, core.ErrLayout},
		{"two places", list{a, card}, 0, core.AllocOptions{}, core.ErrDevice, core.ErrDevice},
		{"memory of no opened device", list{card, card}, 0, core.AllocOptions{}, core.ErrDevice, core.ErrDevice},
		{"memory of a kind that no device is known for", list{a}, 0, core.AllocOptions{Type: core.DeviceCUDAHost}, core.ErrInvalid, core.ErrInvalid},
	} {
		for _, f := range []struct {
			name string
			call func(context.Context, []*core.Tensor, int, core.AllocOptions) (*core.Tensor, error)
			want error
		}{{"Stack", core.Stack, c.stack}, {"Concat", core.Concat, c.concat}} {
			got, err := f.call(ctx, c.tensors, c.axis, c.opts)
			if f.want == nil {
				if err != nil {
					t.Errorf("%s of %s: %v", f.name, c.name, err)
				}
				got.Close()
				continue
			}
			var typed *core.Error
			if !errors.Is(err, f.want) || !errors.As(err, &typed) || got != nil || typed.Call != f.name && typed.Call != "Size" {
				t.Errorf("%s of %s: %v and error %v, want %v", f.name, c.name, got, err, f.want)
			}
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := core.Stack(ended, list{huge}, 0, core.AllocOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Stack with a context that has ended: %v", err)
	}
	// Tensors without elements lie anywhere in the result, whose other extents are theirs.
	none := keep(core.FromSlice([]int32{}, 2, 0))
	got := keep(core.Concat(ctx, list{none, a, none, none}, 1, core.AllocOptions{}))
	if same, err := core.EqualBits(ctx, got, a); err != nil || !same {
		t.Errorf("Concat with tensors without elements: %v, %v", got, err)
	}
	if got := keep(core.Stack(ctx, list{none, none}, 1, core.AllocOptions{})); fmt.Sprint(got) != "int32[2 2 0] on cpu" {
		t.Errorf("Stack of tensors without elements is %v", got)
	}
}

// lazy is work that is done when somebody waits for it.
type lazy struct {
	work func() error
	done bool
}

func (e *lazy) Done() (bool, error) { return e.done, nil }

func (e *lazy) Wait(context.Context) error {
	e.done = true
	return e.work()
}

// A tensor is read after its last write, whose error is the error of the call.
func TestStackWaits(t *testing.T) {
	keep := keeper(t)
	a := keep(core.FromSlice([]int32{1, 2}))
	late := []int32{0, 0}
	b := keep(core.FromSlice(late))
	bufferOf(t, b).Wrote(&lazy{work: func() error {
		copy(late, []int32{3, 4})
		return nil
	}})
	got := keep(core.Stack(t.Context(), []*core.Tensor{a, b}, 0, core.AllocOptions{}))
	if s, err := core.Values[int32](got); err != nil || !slices.Equal(s, []int32{1, 2, 3, 4}) {
		t.Errorf("%v, %v", s, err)
	}
	failure := errors.New("the write failed")
	bufferOf(t, b).Wrote(&lazy{work: func() error { return failure }})
	if got, err := core.Concat(t.Context(), []*core.Tensor{a, b}, 0, core.AllocOptions{}); err != failure || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func ExampleStack() {
	ctx := context.Background()
	a, err := core.FromSlice([]int{1, 2, 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	b, err := core.FromSlice([]int{4, 5, 6})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()
	rows, err := core.Stack(ctx, []*core.Tensor{a, b}, 0, core.AllocOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rows.Close()
	one, err := core.Concat(ctx, []*core.Tensor{a, b}, 0, core.AllocOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer one.Close()
	fmt.Printf("%+v\n%+v\n", rows, one)
	// Output:
	// int64[2 3] on cpu
	// [[1 2 3]
	//  [4 5 6]]
	// int64[6] on cpu
	// [1 2 3 4 5 6]
}
