//go:build unix && !linux

package cpu

import "unsafe"

// adviseHuge does nothing on this system.
func adviseHuge(unsafe.Pointer, uintptr) {}
