//go:build !purego && !race && !asan && !msan

package float

// All processors with arm64 have what the functions need.
const vectors = true

// In these functions, n is at least shortest.

//go:noescape
func vectorToFloat16(to *Float16, from *float32, n int)

//go:noescape
func vectorFromFloat16(to *float32, from *Float16, n int)

//go:noescape
func vectorToBFloat16(to *BFloat16, from *float32, n int)

//go:noescape
func vectorFromBFloat16(to *float32, from *BFloat16, n int)
