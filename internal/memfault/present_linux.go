package memfault

import "syscall"

// madvPopulateRead has the kernel map all pages for reading, from Linux 5.14 on. It fails with EFAULT where reading
// would fault.
const madvPopulateRead = 22

// Present returns an [Error] if the memory from start on is not there any more. It is for memory that C code is about
// to read, which cannot be guarded. Memory that vanishes later still ends the process. On older kernels, and
// for memory that is no ordinary mapping, Present returns nil.
func Present(start, size uintptr) error {
	if size == 0 {
		return nil
	}
	page := uintptr(syscall.Getpagesize())
	first := start &^ (page - 1)
	end := (start + size + page - 1) &^ (page - 1)
	for {
		// Not by a slice, since the pages may be those of several objects of Go. The caller keeps the memory alive.
		switch _, _, err := syscall.Syscall(syscall.SYS_MADVISE, first, end-first, madvPopulateRead); err {
		case syscall.EFAULT:
			return Error{start}
		case syscall.EINTR, syscall.EAGAIN:
		default:
			return nil
		}
	}
}
