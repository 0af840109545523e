package benchmarks

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// words measures the round trip of a word of a memory file between two goroutines that do not sleep, each of which
// has a mapping of its own: what two frames of a ring cost at least.
func (e *env) words() (sampler, error) {
	fd, err := unix.MemfdCreate("words", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	const size = 4096
	if err := unix.Ftruncate(fd, size); err != nil {
		return nil, err
	}
	var places [2]unsafe.Pointer
	for i := range places {
		if places[i], err = unix.MmapPtr(fd, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			return nil, err
		}
		e.cleanup(func() { _ = unix.MunmapPtr(places[i], size) })
	}
	// The words are two lines apart, since a processor may fetch the line beside the one that is read.
	question := func(side int) *uint32 { return (*uint32)(places[side]) }
	answer := func(side int) *uint32 { return (*uint32)(unsafe.Add(places[side], 128)) }
	wait := func(at *uint32, x uint32) {
		for looks := 0; atomic.LoadUint32(at) != x; looks++ {
			if looks > 10_000 { // the other goroutine has no processor
				_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
			}
		}
	}
	round := uint32(0)
	return func(n int) (time.Duration, error) {
		done, first := make(chan struct{}), round+1
		go func() {
			defer close(done)
			for i := range uint32(n) {
				wait(question(1), first+i)
				atomic.StoreUint32(answer(1), first+i)
			}
		}()
		start := time.Now()
		for range n {
			round++
			atomic.StoreUint32(question(0), round)
			wait(answer(0), round)
		}
		took := time.Since(start)
		<-done
		return took, nil
	}, nil
}
