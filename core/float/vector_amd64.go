//go:build !purego && !race && !asan && !msan

package float

// vectors tells whether the processor has AVX2 and F16C, and the system saves the registers.
var vectors = detect()

func detect() bool {
	const (
		osxsave, avx, f16c = 1 << 27, 1 << 28, 1 << 29 // leaf 1, ECX
		avx2               = 1 << 5                    // leaf 7, EBX
		xmm, ymm           = 1 << 1, 1 << 2            // XCR0
	)
	if most, _, _ := cpuid(0); most < 7 {
		return false
	}
	_, _, c := cpuid(1)
	_, b, _ := cpuid(7)
	return c&osxsave != 0 && c&avx != 0 && c&f16c != 0 && b&avx2 != 0 && xgetbv()&(xmm|ymm) == xmm|ymm
}

// cpuid returns the first three registers of a leaf's first subleaf.
//
//go:noescape
func cpuid(leaf uint32) (a, b, c uint32)

// xgetbv returns the lower half of XCR0. It must not be called without osxsave.
//
//go:noescape
func xgetbv() uint32

// In these functions, n is at least shortest.

//go:noescape
func vectorToFloat16(to *Float16, from *float32, n int)

//go:noescape
func vectorFromFloat16(to *float32, from *Float16, n int)

//go:noescape
func vectorToBFloat16(to *BFloat16, from *float32, n int)

//go:noescape
func vectorFromBFloat16(to *float32, from *BFloat16, n int)
