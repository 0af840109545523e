//go:build cgo && linux

package parts

// #include <malloc.h>
//
// /* Other C libraries than glibc have no such call. */
// static void trim(void) {
// #ifdef __GLIBC__
// 	malloc_trim(0);
// #endif
// }
import "C"

// Trim has the C library give back to the system the memory that it keeps free.
func Trim() { C.trim() }
