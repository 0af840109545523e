//go:build !race && !asan && !msan

package coretest

// Sanitized reports whether the program was built with a sanitizer. It then runs several
// times as long, and the sanitizer occupies most of its address space.
const Sanitized = false
