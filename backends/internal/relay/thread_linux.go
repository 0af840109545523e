package relay

import "syscall"

// thread is the number of the calling thread.
func thread() int { return syscall.Gettid() }
