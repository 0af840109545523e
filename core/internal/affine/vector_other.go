//go:build !amd64 || purego || race || asan || msan

package affine

import "unsafe"

// The sanitizers do not see what assembly reads and writes. So it is not used with them.
const vectors = false

func vectorFromUint8(to *float32, low, high unsafe.Pointer, n, step, toStep int64, order *[16]uint8, scale, offset float32) {
	panic("affine: no vectors")
}
