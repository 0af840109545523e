//go:build linux && cgo

package gpusim_test

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// externalSemaphore is CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, semaphorePoint
// CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS and CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, which lie
// alike where they are used.
type externalSemaphore struct {
	kind  int32
	_     int32
	fd    int32
	_     [12]byte
	flags uint32
	_     [17]uint32
}

type semaphorePoint struct {
	value uint64
	_     [64]byte
	flags uint32
	_     [17]uint32
}

const timelineFD = 9 // CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD

// newTimeline makes a timeline: a descriptor of the test's and a semaphore of the driver's.
func newTimeline(t *testing.T, d *gpusimtest.Driver) (fd int, semaphore uint64) {
	t.Helper()
	fd = int(int32(d.Call("dlx_gpusim_timeline_new")))
	given, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	d.OK("cuImportExternalSemaphore", &semaphore, &externalSemaphore{kind: timelineFD, fd: int32(given)})
	t.Cleanup(func() {
		d.OK("cuDestroyExternalSemaphore", semaphore)
		_ = unix.Close(fd)
	})
	return fd, semaphore
}

// value is where a timeline stands.
func value(t *testing.T, d *gpusimtest.Driver, fd int) (v uint64) {
	t.Helper()
	d.OK("dlx_gpusim_timeline_value", fd, &v)
	return v
}

// The simulated part of a Vulkan driver.
func TestATimelineOnlyGrows(t *testing.T) {
	d := gpusimtest.Start(t)
	fd := int(int32(d.Call("dlx_gpusim_timeline_new")))
	defer func() { _ = unix.Close(fd) }()
	if v := value(t, d, fd); v != 0 {
		t.Errorf("a new timeline stands at %d", v)
	}
	d.OK("dlx_gpusim_timeline_signal", fd, 5)
	d.Want(gpusimtest.InvalidValue, "dlx_gpusim_timeline_signal", fd, 5)
	d.Want(gpusimtest.InvalidValue, "dlx_gpusim_timeline_signal", fd, 4)
	d.OK("dlx_gpusim_timeline_wait", fd, 5, 0)
	d.Want(gpusimtest.Timeout, "dlx_gpusim_timeline_wait", fd, 6, 1)
	d.Want(gpusimtest.InvalidValue, "dlx_gpusim_timeline_signal", -1, 6)
}

// "External Resource Interoperability", cuSignalExternalSemaphoresAsync: "when all prior
// operations in the stream complete".
func TestASignalComesAfterTheWorkBeforeIt(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	fd, semaphore := newTimeline(t, d)
	file := lavapipeFile(t, page)
	vulkan, err := unix.Mmap(file, page, page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(vulkan) }()
	var memory, buffer uint64
	d.OK("cuImportExternalMemory", &memory, &externalHandle{kind: opaqueFD, fd: int32(file), size: page})
	d.OK("cuExternalMemoryGetMappedBuffer", &buffer, memory, &externalBuffer{size: page})

	d.OK("cuMemsetD8Async", buffer, 0x5A, page, stream)
	d.OK("cuSignalExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 1}, 1, stream)
	d.OK("dlx_gpusim_timeline_wait", fd, 1, 10_000)
	for i, b := range vulkan {
		if b != 0x5A {
			t.Fatalf("byte %d is %#x after the signal", i, b)
		}
	}
	d.OK("cuStreamSynchronize", stream)
	d.OK("cuMemFree_v2", buffer)
	d.OK("cuDestroyExternalMemory", memory)
}

// cuWaitExternalSemaphoresAsync: what comes later in the stream waits, other streams do not.
func TestAWaitHoldsItsStreamAndNoOther(t *testing.T) {
	d := gpusimtest.Start(t)
	waiting, other := d.NewStream(), d.NewStream()
	fd, semaphore := newTimeline(t, d)
	var ptr uint64
	d.OK("cuMemAlloc_v2", &ptr, 2*page)
	d.OK("cuMemsetD8Async", ptr, 1, 2*page, legacy)
	d.OK("cuCtxSynchronize")

	d.OK("cuWaitExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 2}, 1, waiting)
	d.OK("cuMemsetD8Async", ptr, 2, page, waiting)
	d.OK("cuMemsetD8Async", ptr+page, 3, page, other)
	d.OK("cuStreamSynchronize", other)
	time.Sleep(20 * time.Millisecond)
	d.Want(gpusimtest.NotReady, "cuStreamQuery", waiting)

	reader := d.NewStream()
	host := d.Pinned(2)
	d.OK("cuMemcpyAsync", &host[0], ptr, 1, reader)
	d.OK("cuMemcpyAsync", &host[1], ptr+page, 1, reader)
	d.OK("cuStreamSynchronize", reader)
	if host[0] != 1 || host[1] != 3 {
		t.Errorf("the memory is %v, want [1 3]: the wait did not hold, or held too much", host)
	}
	d.OK("dlx_gpusim_timeline_signal", fd, 1)
	time.Sleep(20 * time.Millisecond)
	d.Want(gpusimtest.NotReady, "cuStreamQuery", waiting)
	d.OK("dlx_gpusim_timeline_signal", fd, 7)
	d.OK("cuStreamSynchronize", waiting)
	d.Holds(ptr, []byte{2})
	d.OK("cuMemFree_v2", ptr)
}

func TestStreamsOrderEachOtherByATimeline(t *testing.T) {
	d := gpusimtest.Start(t)
	first, second := d.NewStream(), d.NewStream()
	fd, semaphore := newTimeline(t, d)
	var ptr uint64
	d.OK("cuMemAlloc_v2", &ptr, page)
	const rounds = 20
	for i := uint64(1); i <= rounds; i++ {
		d.OK("cuWaitExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 2*i - 1}, 1, second)
		d.OK("cuMemcpyDtoDAsync_v2", ptr+i, ptr+i-1, 1, second)
		d.OK("cuSignalExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 2 * i}, 1, second)
		d.OK("cuWaitExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 2*i - 2}, 1, first)
		d.OK("cuMemsetD8Async", ptr+i-1, int(i), 1, first)
		d.OK("cuSignalExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 2*i - 1}, 1, first)
	}
	d.OK("cuStreamSynchronize", second)
	if v := value(t, d, fd); v != 2*rounds {
		t.Errorf("the timeline stands at %d, want %d", v, 2*rounds)
	}
	d.Holds(ptr+rounds, []byte{rounds})
	d.OK("cuStreamSynchronize", first)
	d.OK("cuMemFree_v2", ptr)
}

// Several semaphores of one call: all are waited for, all are signalled.
func TestACallMayNameSeveralSemaphores(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	a, first := newTimeline(t, d)
	b, second := newTimeline(t, d)
	both := [2]uint64{first, second}
	d.OK("cuWaitExternalSemaphoresAsync", &both, &[2]semaphorePoint{{value: 1}, {value: 3}}, 2, stream)
	d.OK("cuSignalExternalSemaphoresAsync", &both, &[2]semaphorePoint{{value: 10}, {value: 30}}, 2, stream)
	d.OK("dlx_gpusim_timeline_signal", a, 1)
	time.Sleep(10 * time.Millisecond)
	d.Want(gpusimtest.NotReady, "cuStreamQuery", stream)
	d.OK("dlx_gpusim_timeline_signal", b, 3)
	d.OK("cuStreamSynchronize", stream)
	if x, y := value(t, d, a), value(t, d, b); x != 10 || y != 30 {
		t.Errorf("the timelines stand at %d and %d", x, y)
	}
}

func TestWrongArgumentsOfASignalOrWaitAreRefused(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	_, semaphore := newTimeline(t, d)
	for _, call := range []string{"cuSignalExternalSemaphoresAsync", "cuWaitExternalSemaphoresAsync"} {
		d.Want(gpusimtest.InvalidValue, call, &semaphore, &semaphorePoint{value: 1, flags: 1}, 1, stream)
		d.Want(gpusimtest.InvalidValue, call, &semaphore, nil, 1, stream)
		d.Want(gpusimtest.InvalidValue, call, nil, &semaphorePoint{value: 1}, 1, stream)
		d.Want(gpusimtest.InvalidValue, call, &semaphore, &semaphorePoint{value: 1}, 0, stream)
		d.WantMisuse(gpusimtest.InvalidHandle, call, &[1]uint64{4711}, &semaphorePoint{value: 1}, 1, stream)
		d.WantMisuse(gpusimtest.InvalidHandle, call, &semaphore, &semaphorePoint{value: 1}, 1, 4711)
	}
}

func TestWrongUseOfASemaphoreIsNoted(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	fd, semaphore := newTimeline(t, d)
	d.OK("dlx_gpusim_timeline_signal", fd, 5)
	for _, v := range []uint64{5, 4} {
		d.OK("cuSignalExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: v}, 1, stream)
		d.OK("cuStreamSynchronize", stream)
		d.Noted()
	}
	if v := value(t, d, fd); v != 5 {
		t.Errorf("the timeline stands at %d, want 5 still", v)
	}
	given, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var early uint64
	d.OK("cuImportExternalSemaphore", &early, &externalSemaphore{kind: timelineFD, fd: int32(given)})
	d.Call("dlx_gpusim_hold", 1)
	d.OK("cuSignalExternalSemaphoresAsync", &early, &semaphorePoint{value: 6}, 1, stream)
	d.OK("cuDestroyExternalSemaphore", early)
	d.Call("dlx_gpusim_hold", 0)
	d.OK("cuStreamSynchronize", stream)
	d.Noted()
	d.WantMisuse(gpusimtest.InvalidHandle, "cuSignalExternalSemaphoresAsync", &early, &semaphorePoint{value: 7}, 1, stream)
}

func TestWhatIsNoTimelineIsNotImportedAndStaysTheCallers(t *testing.T) {
	d := gpusimtest.Start(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	memory := lavapipeFile(t, page)
	fd := int(int32(d.Call("dlx_gpusim_timeline_new")))
	defer func() { _, _ = unix.Close(memory), unix.Close(fd) }()
	for _, c := range []struct {
		name string
		desc externalSemaphore
		want gpusimtest.Result
	}{
		{"a closed descriptor", externalSemaphore{kind: timelineFD, fd: -1}, gpusimtest.InvalidValue},
		{"a device", externalSemaphore{kind: timelineFD, fd: int32(null.Fd())}, gpusimtest.OperatingSystem},
		{"memory", externalSemaphore{kind: timelineFD, fd: int32(memory)}, gpusimtest.OperatingSystem},
		{"a binary semaphore", externalSemaphore{kind: 1, fd: int32(fd)}, gpusimtest.NotSupported},
		{"a handle of Windows", externalSemaphore{kind: 10, fd: int32(fd)}, gpusimtest.NotSupported},
		{"no kind", externalSemaphore{fd: int32(fd)}, gpusimtest.InvalidValue},
		{"flags", externalSemaphore{kind: timelineFD, fd: int32(fd), flags: 1}, gpusimtest.InvalidValue},
	} {
		d.Run(t, c.name, func(t *testing.T, d *gpusimtest.Driver) {
			var semaphore uint64
			d.Want(c.want, "cuImportExternalSemaphore", &semaphore, &c.desc)
			if c.desc.fd >= 0 && !isOpen(int(c.desc.fd)) {
				t.Error("the descriptor was taken")
			}
		})
	}
}

// While work is held back, what somebody waits for runs, and so what sets the value that
// this waits for.
func TestHeldWorkRunsForAWaitBehindASemaphore(t *testing.T) {
	d := gpusimtest.Start(t)
	setting, waiting := d.NewStream(), d.NewStream()
	_, semaphore := newTimeline(t, d)
	d.Call("dlx_gpusim_hold", 1)
	defer d.Call("dlx_gpusim_hold", 0)
	d.OK("cuWaitExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 1}, 1, waiting)
	d.OK("cuSignalExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 1}, 1, setting)
	d.OK("cuStreamSynchronize", waiting)
}
