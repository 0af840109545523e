//go:build unix

package parts

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// Limits are what a process may have beyond what it has; 0 is no limit.
type Limits struct {
	Descriptors int
	Memory      int64 // bytes of its address space
}

// Set puts the limits in force.
func (l Limits) Set() error {
	if l.Descriptors > 0 {
		next, err := syscall.Dup(0)
		if err != nil {
			return err
		}
		_ = syscall.Close(next)
		if err := limit(syscall.RLIMIT_NOFILE, uint64(next+l.Descriptors)); err != nil {
			return err
		}
	}
	if l.Memory > 0 {
		// Go ends a program whose own heap cannot grow: it gets what it needs before, and keeps
		// the addresses.
		runtime.KeepAlive(make([]byte, 256<<20))
		runtime.GC()
		debug.SetMemoryLimit(192 << 20)
		text, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			return err
		}
		pages, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			return err
		}
		return limit(syscall.RLIMIT_AS, uint64(pages*int64(os.Getpagesize())+l.Memory))
	}
	return nil
}

func limit(what int, most uint64) error {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(what, &r); err != nil {
		return err
	}
	r.Cur = most
	return syscall.Setrlimit(what, &r)
}
