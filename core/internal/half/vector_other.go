//go:build (!amd64 && !arm64) || purego || race || asan || msan

package half

// The sanitizers do not see what assembly reads and writes. So it is not used with them.
const vectors = false

func vectorToFloat16(to *uint16, from *float32, n int)    { panic("half: no vectors") }
func vectorFromFloat16(to *float32, from *uint16, n int)  { panic("half: no vectors") }
func vectorToBFloat16(to *uint16, from *float32, n int)   { panic("half: no vectors") }
func vectorFromBFloat16(to *float32, from *uint16, n int) { panic("half: no vectors") }
