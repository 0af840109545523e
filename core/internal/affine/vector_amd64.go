//go:build !purego && !race && !asan && !msan

package affine

import "unsafe"

// vectors tells whether the processor has AVX2, and the system saves the registers.
var vectors = detect()

func detect() bool {
	const (
		osxsave, avx = 1 << 27, 1 << 28 // leaf 1, ECX
		avx2         = 1 << 5           // leaf 7, EBX
		xmm, ymm     = 1 << 1, 1 << 2   // XCR0
	)
	if most, _, _ := cpuid(0); most < 7 {
		return false
	}
	_, _, c := cpuid(1)
	_, b, _ := cpuid(7)
	return c&osxsave != 0 && c&avx != 0 && b&avx2 != 0 && xgetbv()&(xmm|ymm) == xmm|ymm
}

// cpuid returns the first three registers of a leaf's first subleaf.
//
//go:noescape
func cpuid(leaf uint32) (a, b, c uint32)

// xgetbv returns the lower half of XCR0. It must not be called without osxsave.
//
//go:noescape
func xgetbv() uint32

// vectorFromUint8 converts n bytes, 8 at a time: n is a positive multiple of 8. order picks the first four of
// 8 from the 16 bytes at low, and the others from those at high. low and high advance by step bytes, to by
// toStep.
//
//go:noescape
func vectorFromUint8(to *float32, low, high unsafe.Pointer, n, step, toStep int64, order *[16]uint8, scale, offset float32)
