// Package spread tells goroutines apart, so that those that run at the same time can use different shards of a data
// structure and seldom write the same cache line.
package spread

import "unsafe"

// Hash returns a number for the running goroutine. Its upper 16 bits differ for most goroutines: each has its own stack,
// and the number is a hash of the address of a local variable. It is another number when the stack has moved or when
// other functions call Hash.
//
// nocheckptr: otherwise -d=checkptr=2, which -asan has too, places the variable in the heap, where all goroutines' are together.
//
//go:nocheckptr
func Hash() uint32 {
	var here byte
	return uint32(uintptr(unsafe.Pointer(&here))>>11) * 0x9e3779b1
}
