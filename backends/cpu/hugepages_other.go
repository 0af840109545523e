//go:build unix && !linux

package cpu

import "unsafe"

// adviseHuge has nobody to advise.
func adviseHuge(unsafe.Pointer, uintptr) {}
