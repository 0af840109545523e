//go:build cuda && linux && cgo && !race && !asan

package cuda

const sanitized = false
