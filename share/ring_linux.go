package share

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// newShared makes a memory file of size bytes, whole pages, and maps it. Only the result can
// write the file: it is sealed against changes of its size and against later writers. The
// caller owns the descriptor and one reference of the mapping.
func newShared(call string, size int64) (fd int, m *mapping, err error) {
	fd, err = unix.MemfdCreate("dlx-ring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, nil, systemError(core.ErrOutOfMemory, "memfd_create", err, "%s: no memory file", call)
	}
	if err = unix.Ftruncate(fd, size); err != nil {
		err = systemError(core.ErrOutOfMemory, "ftruncate", err, "%s: no memory file of %d bytes", call, size)
	} else if m, err = mapShared(fd, size, unix.PROT_READ|unix.PROT_WRITE); err == nil {
		const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			m.release()
			err = systemError(core.ErrNotSupported, "fcntl", err, "%s: the memory file cannot be sealed against writing, as Linux can since 5.1", call)
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, nil, err
	}
	return fd, m, nil
}

// openShared maps size bytes of a memory file of another process for reading. It fails unless
// no access to them can end this process, and unless nobody but their owner can write them. The
// caller still owns the descriptor.
func openShared(fd int, size int64) (*mapping, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, systemError(core.ErrInvalid, "fstat", err, "the descriptor of a ring is not open")
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_FUTURE_WRITE
	has, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	switch {
	case err != nil:
		return nil, systemError(core.ErrInvalid, "fcntl", err, "the descriptor of a ring is not a memfd")
	case has&seals != seals:
		return nil, violation("the memfd of a ring has the seals %#x: it needs F_SEAL_SHRINK and F_SEAL_FUTURE_WRITE, %#x", has, seals)
	case stat.Size < size:
		return nil, violation("the memfd of a ring has %d bytes, and not %d", stat.Size, size)
	}
	if err := checkPages(fd); err != nil {
		return nil, err
	}
	return mapShared(fd, size, unix.PROT_READ)
}

// closeFD closes a descriptor.
func closeFD(fd int) { _ = unix.Close(fd) }

// wholePages rounds up to pages.
func wholePages(size int64) int64 {
	page := int64(os.Getpagesize())
	return (size + page - 1) / page * page
}

// mapping is a part of the address space that lies on a memory file. The last release unmaps it.
type mapping struct {
	base unsafe.Pointer
	size int64
	refs atomic.Int32
}

func mapShared(fd int, size int64, protection int) (*mapping, error) {
	p, err := unix.MmapPtr(fd, 0, nil, uintptr(size), protection, unix.MAP_SHARED)
	if err != nil {
		return nil, systemError(core.ErrOutOfMemory, "mmap", err, "%d bytes of a ring cannot be mapped", size)
	}
	m := &mapping{base: p, size: size}
	m.refs.Store(1)
	return m, nil
}

// retain adds a reference. The caller has one.
func (m *mapping) retain() { m.refs.Add(1) }

// release gives a reference back.
func (m *mapping) release() {
	if m.refs.Add(-1) == 0 {
		_ = unix.MunmapPtr(m.base, uintptr(m.size))
	}
}

// futexWaiter is struct futex_waitv of linux/futex.h.
type futexWaiter struct {
	value   uint64
	address uint64
	flags   uint32
	_       uint32
}

const (
	futexWait  = 0
	futexWake  = 1
	futex32Bit = 2   // FUTEX2_SIZE_U32
	futexWaitV = 449 // the number is the same on all architectures
)

// noFutexWaitV says that the system has no futex_waitv, which Linux has since 5.16, or that a
// sandbox refuses it.
var noFutexWaitV atomic.Bool

// startTime returns a time on the monotonic clock of the system, and the same time for package time, whose
// functions need no system call.
var startTime = sync.OnceValue(func() (start struct {
	at          time.Time
	nanoseconds int64 // 0 if the clock cannot be read
}) {
	var now unix.Timespec
	if start.at = time.Now(); unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
		start.nanoseconds = now.Nano()
	}
	return start
})

// sleep waits until one of the words has another value than its own, or is woken, or limit has
// passed. It may also return sooner.
func sleep(words []word, limit time.Duration) {
	if !noFutexWaitV.Load() {
		var list [maxWords]futexWaiter
		for i, w := range words {
			list[i] = futexWaiter{value: uint64(w.value), address: uint64(uintptr(unsafe.Pointer(w.at))), flags: futex32Bit}
		}
		if start := startTime(); start.nanoseconds != 0 {
			end := unix.NsecToTimespec(start.nanoseconds + time.Since(start.at).Nanoseconds() + limit.Nanoseconds())
			_, _, code := unix.Syscall6(futexWaitV, uintptr(unsafe.Pointer(&list)), uintptr(len(words)), 0, uintptr(unsafe.Pointer(&end)), unix.CLOCK_MONOTONIC, 0)
			if !errors.Is(code, unix.ENOSYS) && !errors.Is(code, unix.EPERM) {
				return
			}
			noFutexWaitV.Store(true)
		}
	}
	// Changes of the other words are noticed late.
	t := unix.NsecToTimespec(min(limit, time.Millisecond).Nanoseconds())
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(words[0].at)), futexWait, uintptr(words[0].value), uintptr(unsafe.Pointer(&t)), 0, 0)
}

// yield lets another thread use the processor, if one waits for it.
func yield() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// wake wakes all that sleep on a word.
func wake(at *uint32) {
	const all = 1<<31 - 1
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(at)), futexWake, all, 0, 0, 0)
}

// process returns a descriptor of the process at the other end (pidfd), which the caller closes: -1 if there is none. That
// is so for a process that the system does not name, and if the socket is one of a pair that this
// process has made.
func (s *sockets) process(p Peer) int {
	if p.PID == 0 || int(p.PID) == os.Getpid() {
		return -1
	}
	const peerPIDFD = 77 // SO_PEERPIDFD, which Linux has since 6.5; its number is the same on all architectures but parisc and sparc
	fd := -1
	err := s.raw.Control(func(socket uintptr) {
		if found, err := unix.GetsockoptInt(int(socket), unix.SOL_SOCKET, peerPIDFD); err == nil {
			fd = found
		}
	})
	if fd >= 0 || err != nil {
		return fd
	}
	if fd, err = unix.PidfdOpen(int(p.PID), 0); err != nil {
		return -1
	}
	if s.hungUp() { // another process may have the number by now
		closeFD(fd)
		return -1
	}
	return fd
}

// awaitExit waits until a process has ended, or ctx has.
func awaitExit(ctx context.Context, process int) {
	for ctx.Err() == nil {
		list := [1]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
		if n, err := unix.Poll(list[:], 10); n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
