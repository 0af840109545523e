//go:build race || asan || msan

package coretest

// Sanitized reports whether a sanitizer watches this program, which then takes many
// times as long and has address space for nothing else.
const Sanitized = true
