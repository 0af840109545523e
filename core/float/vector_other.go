//go:build (!amd64 && !arm64) || purego || race || asan || msan

package float

// The sanitizers do not see what assembly reads and writes. So it is not used with them.
const vectors = false

func vectorToFloat16(to *Float16, from *float32, n int)     { panic("float: no vectors") }
func vectorFromFloat16(to *float32, from *Float16, n int)   { panic("float: no vectors") }
func vectorToBFloat16(to *BFloat16, from *float32, n int)   { panic("float: no vectors") }
func vectorFromBFloat16(to *float32, from *BFloat16, n int) { panic("float: no vectors") }
