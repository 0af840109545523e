package gl

import "syscall"

// currentThread returns a number that identifies the calling thread.
func currentThread() int { return syscall.Gettid() }
