package core_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// Wrap proves for small numbers at once that no byte lies outside of the memory or of the address space. Here exact arithmetic
// says so, on both sides of each limit.
func TestWrapAcceptsWhatLiesInTheMemory(t *testing.T) {
	sum := func(n ...int64) *big.Int {
		total := new(big.Int)
		for _, x := range n {
			total.Add(total, big.NewInt(x))
		}
		return total
	}
	largest, end := big.NewInt(math.MaxInt64), new(big.Int).SetUint64(math.MaxUint64)
	accepted, refused := 0, 0
	for _, dtype := range []core.DType{core.TypeUint8, core.TypeFloat32, {Code: core.TypeUint8.Code, Bits: 4, Lanes: 1}, {Code: core.TypeUint8.Code, Bits: 255, Lanes: math.MaxUint16}} {
		for _, count := range []int64{1, 3, 1<<38 - 2, 1<<38 - 1, 1 << 38, 1 << 40} {
			bits := new(big.Int).Mul(big.NewInt(count), big.NewInt(dtype.ElementBits()))
			bytes := bits.Rsh(bits.Add(bits, big.NewInt(7)), 3)
			for _, handle := range []uintptr{1, 1<<61 - 1, 1 << 61, math.MaxUint - 2, math.MaxUint} {
				for _, memory := range []int64{0, 1, 1<<61 - 1, 1 << 61, math.MaxInt64 - 1} {
					for _, offset := range []int64{0, 1, 1<<61 - 1, 1 << 61, math.MaxInt64 - 1} {
						last := new(big.Int).Add(bytes, big.NewInt(offset))
						reach := new(big.Int).Add(bytes, sum(memory, offset))
						fits := reach.Cmp(largest) <= 0 && reach.Add(reach, new(big.Int).SetUint64(uint64(handle))).Cmp(end) <= 0
						sizes := []int64{core.UnknownSize, 0}
						if last.IsInt64() {
							sizes = append(sizes, last.Int64(), last.Int64()-1)
						}
						for _, size := range sizes {
							want := fits && (size == core.UnknownSize || last.Cmp(big.NewInt(size)) <= 0)
							m := core.Memory{ID: core.CPU, Handle: handle, Offset: memory, Size: size}
							v, err := core.Wrap(m, core.Spec{DType: dtype, Shape: []int64{count}, Offset: offset})
							if got := err == nil; got != want {
								t.Fatalf("%d of %v at %#x + %d + %d, size %d: %v, want success: %t", count, dtype, handle, memory, offset, size, err, want)
							}
							if want {
								accepted++
								mustClose(t, v)
							} else {
								refused++
							}
						}
					}
				}
			}
		}
	}
	if accepted < 100 || refused < 100 {
		t.Errorf("%d accepted, %d refused: the test needs both", accepted, refused)
	}
}
