package hostcopy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/typecode"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// start is the address of memory, which its user keeps alive.
func start(memory []byte) uintptr { return uintptr(unsafe.Pointer(&memory[0])) }

// hosted is a tensor of memory, which starts at its handle.
func hosted(t *testing.T, memory []byte, s core.Spec) *core.Tensor {
	t.Helper()
	x, err := core.Wrap(core.Memory{Handle: start(memory), Size: int64(len(memory)), ID: core.CPU}, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = x.Close()
		runtime.KeepAlive(memory) // the tensor knows an address only
	})
	return x
}

var jobTypes = []core.DType{
	core.TypeUint8, core.TypeFloat32, core.TypeComplex128, core.TypeInt4,
	{Code: typecode.Int, Bits: 4, Lanes: 2}, {Code: typecode.UInt, Bits: 1, Lanes: 1}, {Code: typecode.Float, Bits: 12, Lanes: 1},
}

// Random views of every kind of type: what Between gives is what copying one
// element after the other gives, in gaps and neighbouring bits too.
func TestBetweenMatchesTheNaiveCopy(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for _, dtype := range jobTypes {
		for _, flags := range []core.Flags{0, core.FlagSubBytePadded} {
			for range rounds(60) {
				dst, src := randomPair(t, rng, dtype, flags)
				want := bytes.Clone(dst.memory)
				naive := hosted(t, want, dst.spec)
				if err := coretest.CopyNaive(naive, src.tensor); err != nil {
					t.Fatal(err)
				}
				job := Between(dst.tensor, src.tensor, start(dst.memory), start(src.memory))
				for range 2 {
					if err := job.Run(2); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(dst.memory, want) {
						t.Fatalf("%v: %v to %v: wrong from byte %d", dtype, src.tensor, dst.tensor, firstDifference(dst.memory, want))
					}
				}
			}
		}
	}
}

// A base is a number: it may lie before the memory, or between elements that strides
// below 0 put before it, in the middle of a byte too.
func TestBasesNeedNotBeInTheMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 52))
	for _, dtype := range jobTypes {
		for range rounds(60) {
			dst, src := randomPair(t, rng, dtype, 0)
			want := bytes.Clone(dst.memory)
			if err := coretest.CopyNaive(hosted(t, want, dst.spec), src.tensor); err != nil {
				t.Fatal(err)
			}
			moved := func(p placed) (*core.Tensor, uintptr) {
				by := rng.Int64N(p.spec.Offset+1000) - 1000 // at most up to the first element
				base := start(p.memory) + uintptr(by)
				p.spec.Offset -= by
				x, err := core.Wrap(core.Memory{Handle: base, Size: core.UnknownSize, ID: core.CPU}, p.spec)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = x.Close() })
				return x, base
			}
			to, toBase := moved(dst)
			from, fromBase := moved(src)
			if err := Between(to, from, toBase, fromBase).Run(2); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(dst.memory, want) {
				t.Fatalf("%v: %v to %v: wrong from byte %d", dtype, from, to, firstDifference(dst.memory, want))
			}
		}
	}
}

// Packing gathers in row-major order, and unpacking undoes it.
func TestPackAndUnpackMatchTheNaiveCopy(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	for _, dtype := range jobTypes {
		for range rounds(60) {
			dst, src := randomPair(t, rng, dtype, 0)
			shape := src.spec.Shape
			packed := make([]byte, src.tensor.NumBytes()+1)
			wantPacked := bytes.Clone(packed)
			if err := coretest.CopyNaive(hosted(t, wantPacked, core.Spec{DType: dtype, Shape: shape}), src.tensor); err != nil {
				t.Fatal(err)
			}
			if err := Pack(start(packed), src.tensor, start(src.memory)).Run(2); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(packed, wantPacked) {
				t.Fatalf("pack %v: wrong from byte %d", src.tensor, firstDifference(packed, wantPacked))
			}
			want := bytes.Clone(dst.memory)
			if err := coretest.CopyNaive(hosted(t, want, dst.spec), src.tensor); err != nil {
				t.Fatal(err)
			}
			if err := Unpack(dst.tensor, start(dst.memory), start(packed)).Run(2); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(dst.memory, want) {
				t.Fatalf("unpack to %v: wrong from byte %d", dst.tensor, firstDifference(dst.memory, want))
			}
		}
	}
}

// Two elements to a byte, moved by whole bytes, are shared among goroutines.
func TestPackedElementsOnWholeBytesAreCopiedAsBytes(t *testing.T) {
	const side = 2100
	memory := [2][]byte{make([]byte, side*side/2), make([]byte, side*side/2)}
	fillRandom(rand.New(rand.NewPCG(5, 6)), memory[0])
	shape := []int64{side, side / 2, 2}
	src := hosted(t, memory[0], core.Spec{DType: core.TypeInt4, Shape: shape, Strides: []int64{2, 2 * side, 1}})
	dst := hosted(t, memory[1], core.Spec{DType: core.TypeInt4, Shape: shape})
	want := hosted(t, make([]byte, len(memory[1])), core.Spec{DType: core.TypeInt4, Shape: shape})
	job := Between(dst, src, start(memory[1]), start(memory[0]))
	if job.bits {
		t.Error("the job counts bits")
	}
	if err := job.Run(2); err != nil {
		t.Fatal(err)
	}
	if err := coretest.CopyNaive(want, src); err != nil {
		t.Fatal(err)
	}
	if a, _ := want.Address(); !bytes.Equal(memory[1], unsafe.Slice(*(**byte)(unsafe.Pointer(&a)), len(memory[1]))) {
		t.Error("wrong bytes")
	}
}

// placed is a tensor, what it was made of, and the memory around it.
type placed struct {
	memory []byte
	spec   core.Spec
	tensor *core.Tensor
}

// randomPair makes two tensors of one shape with memory of random bytes, some of
// it before the first and after the last element.
func randomPair(t *testing.T, rng *rand.Rand, dtype core.DType, flags core.Flags) (dst, src placed) {
	t.Helper()
	shape := randomShape(rng)
	place := func(broadcast bool) placed {
		strides := randomStrides(rng, shape, 1, broadcast)
		l := newLayout(shape, strides)
		if elements(shape) == 0 {
			l = layout{}
		}
		// No element is wider than 16 bytes.
		spec := core.Spec{DType: dtype, Shape: shape, Strides: strides, Offset: -l.first*16 + rng.Int64N(9), Flags: flags}
		p := placed{memory: make([]byte, spec.Offset+(l.last+1)*16), spec: spec}
		fillRandom(rng, p.memory)
		p.tensor = hosted(t, p.memory, spec)
		return p
	}
	return place(false), place(true)
}

func ExamplePack() {
	x, err := core.FromSlice([]int16{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Close()
	columns, err := x.Transpose()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer columns.Close()
	from, err := x.Address()
	if err != nil {
		fmt.Println(err)
		return
	}
	packed := make([]int16, 6)
	y, err := core.FromSlice(packed) // keeps packed in place
	if err != nil {
		fmt.Println(err)
		return
	}
	defer y.Close()
	to, err := y.Address()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := Pack(to, columns, from).Run(1); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(packed)
	// Output: [1 4 2 5 3 6]
}
