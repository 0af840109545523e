package gl

import "syscall"

// currentThread tells threads apart.
func currentThread() int { return syscall.Gettid() }
