//go:build cuda && linux && cgo && (race || asan)

package cuda

// sanitized says that a sanitizer watches, under which a program takes many times as long.
const sanitized = true
