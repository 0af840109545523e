//go:build !cgo || !linux

package parts

// Trim does nothing: only glibc can be asked to give back what it keeps free.
func Trim() {}
