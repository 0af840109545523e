//go:build linux && cgo

package gpusim_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// externalHandle is CUDA_EXTERNAL_MEMORY_HANDLE_DESC, externalBuffer CUDA_EXTERNAL_MEMORY_BUFFER_DESC.
type externalHandle struct {
	kind  int32
	_     int32
	fd    int32
	_     [12]byte
	size  uint64
	flags uint32
	_     [17]uint32
}

type externalBuffer struct {
	offset, size uint64
	flags        uint32
	_            [17]uint32
}

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

const (
	opaqueFD   = 1
	dedicated  = 1
	timelineFD = 9 // CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
	signal     = "cuSignalExternalSemaphoresAsync"
	wait       = "cuWaitExternalSemaphoresAsync"

	lavapipeTail    = 40 // bytes behind the memory in a file of lavapipe
	swiftshaderName = "SwiftShader.Memory.1"
)

// llvmpipe is the mark of Mesa's driver: 16 bytes of the SHA-1 of its name.
var llvmpipe = []byte{0x6c, 0xb9, 0xee, 0x07, 0x4a, 0x0b, 0xad, 0x7b, 0x01, 0x2e, 0x1b, 0xe9, 0x69, 0x7e, 0x53, 0x0f}

// numbers are the bytes of integers.
func numbers(values ...uint64) (data []byte) {
	for _, v := range values {
		data = binary.NativeEndian.AppendUint64(data, v)
	}
	return data
}

// memoryFile is a file in memory that begins with some bytes.
func memoryFile(t *testing.T, name string, size int, begin []byte) int {
	t.Helper()
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(fd, int64(size))
	}
	if err == nil && len(begin) > 0 {
		_, err = unix.Pwrite(fd, begin, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// lavapipeFile is a descriptor as Vulkan exports it on lavapipe: the file's size, where
// the memory begins, the driver's mark, and the memory with some bytes behind it.
func lavapipeFile(t *testing.T, size int) int {
	t.Helper()
	whole := page + size + lavapipeTail
	return memoryFile(t, "as of lavapipe", whole, append(numbers(uint64(whole), page), llvmpipe...))
}

// open opens a file until the test ends.
func open(t *testing.T, name string) int {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// isOpen reports whether a descriptor is open.
func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// duplicate is a descriptor to give away.
func duplicate(t *testing.T, fd int) int {
	t.Helper()
	given, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return given
}

// mapFile maps a part of a file until the test ends.
func mapFile(t *testing.T, fd int, offset int64, size int) []byte {
	t.Helper()
	data, err := unix.Mmap(fd, offset, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(data) })
	return data
}

func importMemory(d *driver, fd int, size uint64) uint64 {
	return d.New("cuImportExternalMemory", &externalHandle{kind: opaqueFD, fd: int32(fd), size: size, flags: dedicated})
}

// refuseMemory fails unless an import fails and leaves the descriptor to the caller.
func refuseMemory(t *testing.T, d *driver, what string, want result, desc externalHandle) {
	t.Helper()
	equal(t, what, d.Result("cuImportExternalMemory", new(uint64), &desc), want)
	if desc.fd >= 0 && desc.fd != noFile && !isOpen(int(desc.fd)) {
		t.Errorf("%s: the descriptor was taken, and nothing imported", what)
	}
}

const noFile = 1 << 30 // a number that no descriptor has

// "External Resource Interoperability", cuImportExternalMemory: the descriptor is the driver's once it was imported.
// cuDestroyExternalMemory: "Any existing buffers [...] must no longer be used and must be explicitly freed".
func TestMemoryOfVulkanIsShared(t *testing.T) {
	d := gpusimtest.Start(t)
	const size = 3 * page
	fd := lavapipeFile(t, size)
	vulkan := mapFile(t, fd, page, size)
	copy(vulkan, gpusimtest.Pattern(3, size))
	memory := importMemory(d, fd, size)
	all := d.New("cuExternalMemoryGetMappedBuffer", memory, &externalBuffer{size: size})
	part := d.New("cuExternalMemoryGetMappedBuffer", memory, &externalBuffer{offset: 100, size: size - 100})
	d.Holds(all, gpusimtest.Pattern(3, size))
	d.Holds(part, gpusimtest.Pattern(3, size)[100:])
	d.Write(part, []byte("written by CUDA"))
	equal(t, "what Vulkan finds", string(vulkan[100:115]), "written by CUDA")
	d.Want(gpusimtest.InvalidValue, "cuMemcpyDtoH_v2", &make([]byte, size+1)[0], all, size+1)
	for name, desc := range map[string]externalBuffer{
		"no bytes": {}, "more than was imported": {size: size + 1}, "beyond the end": {offset: size, size: 1},
		"an offset that wraps around": {offset: 1 << 63, size: 1 << 63}, "flags": {size: page, flags: 1},
	} {
		equal(t, name, d.Result("cuExternalMemoryGetMappedBuffer", new(uint64), memory, &desc), gpusimtest.InvalidValue)
	}
	d.OK("cuMemFree_v2", part)
	stream := d.New("cuStreamCreate", 1)
	release := d.Hold()
	fill(d, all, 1, 1, stream)
	d.OK("cuDestroyExternalMemory", memory)
	equal(t, "the descriptor is open", isOpen(fd), false)
	release()
	d.Illegal("cuStreamSynchronize", stream) // which ends the context, and the buffer with it
	d.WantMisuse(gpusimtest.InvalidHandle, "cuDestroyExternalMemory", memory)
	d.WantMisuse(gpusimtest.InvalidHandle, "cuExternalMemoryGetMappedBuffer", &all, memory, &externalBuffer{size: page})

	memory = importMemory(d, lavapipeFile(t, page), page)
	all = d.New("cuExternalMemoryGetMappedBuffer", memory, &externalBuffer{size: page})
	d.OK("cuDestroyExternalMemory", memory)
	d.OK("cuMemFree_v2", all)
}

// A descriptor of cuMemExportToShareableHandle is in lavapipe's layout, so Vulkan imports it.
// cuImportExternalMemory is for the memory of other APIs, cuMemImportFromShareableHandle for
// that of cuMemCreate: of "handles exported from some graphics APIs" it says that they "may
// not be supported".
func TestExportedMemoryHasTheLayoutOfVulkans(t *testing.T) {
	d := gpusimtest.Start(t)
	handle := create(t, d, granularity)
	ptr := mapping(t, d, handle, granularity)
	d.Write(ptr, gpusimtest.Pattern(5, granularity))
	fd, vulkans := export(d, handle), lavapipeFile(t, granularity-lavapipeTail)
	file := make([]byte, page+granularity)
	if n, err := unix.Pread(fd, file, 0); n != len(file) || err != nil {
		t.Fatal(n, err)
	}
	equal(t, "the header", string(file[:32]), string(append(numbers(page+granularity, page), llvmpipe...)))
	if string(file[page:]) != string(gpusimtest.Pattern(5, granularity)) {
		t.Error("the memory is not there")
	}
	refuseMemory(t, d, "memory of cuMemCreate", gpusimtest.OperatingSystem, externalHandle{kind: opaqueFD, fd: int32(fd), size: granularity})
	d.Want(gpusimtest.NotSupported, "cuMemImportFromShareableHandle", new(uint64), vulkans, posixFD)
	for _, fd := range []int{fd, vulkans} {
		if err := unix.Close(fd); err != nil {
			t.Errorf("the descriptor was taken, and nothing imported: %v", err)
		}
	}
}

func TestWhatIsNoMemoryIsNotImportedAndStaysTheCallers(t *testing.T) {
	const system, invalid, unsupported = gpusimtest.OperatingSystem, gpusimtest.InvalidValue, gpusimtest.NotSupported
	d := gpusimtest.Start(t)
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	sockets, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	plain := open(t, filepath.Join(t.TempDir(), "plain"))
	short, liar, good := lavapipeFile(t, page), lavapipeFile(t, page), lavapipeFile(t, page)
	for _, change := range []func() error{
		func() error { return unix.Ftruncate(plain, 1<<20) },
		func() error { return unix.Ftruncate(short, page) },
		func() error { _, err := unix.Pwrite(liar, numbers(1<<40), 0); return err },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
	}
	empty, timeline := memoryFile(t, "empty", 0, nil), int(int32(d.Call("dlx_gpusim_timeline_new")))
	// A header that Mesa's drivers would trust, in a file of a driver that is not this device's.
	other := memoryFile(t, swiftshaderName, 2*page, numbers(2*page, page))
	fds := []int{ends[0], ends[1], sockets[0], sockets[1], empty, short, liar, good, timeline, other}
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for _, c := range []struct {
		name string
		desc externalHandle
		want result
	}{
		{"a closed descriptor", externalHandle{kind: opaqueFD, fd: -1, size: page}, invalid},
		{"a number that is none", externalHandle{kind: opaqueFD, fd: noFile, size: page}, invalid},
		{"a pipe", externalHandle{kind: opaqueFD, fd: int32(ends[0]), size: page}, system},
		{"a socket", externalHandle{kind: opaqueFD, fd: int32(sockets[0]), size: page}, system},
		{"a device", externalHandle{kind: opaqueFD, fd: int32(open(t, os.DevNull)), size: page}, system},
		{"a file", externalHandle{kind: opaqueFD, fd: int32(plain), size: page}, system},
		{"an empty file in memory", externalHandle{kind: opaqueFD, fd: int32(empty), size: page}, system},
		{"memory that was cut", externalHandle{kind: opaqueFD, fd: int32(short), size: page}, system},
		{"memory that tells more than it has", externalHandle{kind: opaqueFD, fd: int32(liar), size: page}, system},
		{"a semaphore", externalHandle{kind: opaqueFD, fd: int32(timeline), size: page}, system},
		{"memory of another driver", externalHandle{kind: opaqueFD, fd: int32(other), size: page}, system},
		{"more than there is", externalHandle{kind: opaqueFD, fd: int32(good), size: 2 * page}, invalid},
		{"no bytes", externalHandle{kind: opaqueFD, fd: int32(good)}, invalid},
		{"flags that nobody knows", externalHandle{kind: opaqueFD, fd: int32(good), size: page, flags: 2}, invalid},
		{"a handle of Windows", externalHandle{kind: 2, fd: int32(good), size: page}, unsupported},
		{"no kind", externalHandle{fd: int32(good), size: page}, invalid},
		{"a kind that nobody knows", externalHandle{kind: 99, fd: int32(good), size: page}, invalid},
	} {
		refuseMemory(t, d, c.name, c.want, c.desc)
	}
	desc := externalHandle{kind: opaqueFD, fd: int32(good), size: page}
	d.Fail("cuImportExternalMemory", gpusimtest.OutOfMemory)
	refuseMemory(t, d, "a fault that a test asked for", gpusimtest.OutOfMemory, desc)
	d.Retain(1) // opaque descriptors are good between drivers of one device
	refuseMemory(t, d, "memory of another device", gpusimtest.InvalidDevice, desc)
}

// A device that is SwiftShader's shares files as SwiftShader has them, the memory and nothing else, and no others.
func TestMemoryHasTheLayoutOfTheOtherDriver(t *testing.T) {
	d := gpusimtest.Start(t)
	if runAlone(t, "DLX_GPUSIM_PLAIN_FILES=1") {
		return
	}
	refuse := func(what string, want result, fd, size int) {
		t.Helper()
		refuseMemory(t, d, what, want, externalHandle{kind: opaqueFD, fd: int32(fd), size: uint64(size)})
		_ = unix.Close(fd)
	}
	refuse("a file of Mesa's", gpusimtest.OperatingSystem, lavapipeFile(t, page), page)
	refuse("a semaphore", gpusimtest.OperatingSystem, memoryFile(t, "SwiftShader.Semaphore.1", page, nil), page)
	refuse("memory that is empty", gpusimtest.OperatingSystem, memoryFile(t, swiftshaderName, 0, nil), page)
	refuse("more than there is", gpusimtest.InvalidValue, memoryFile(t, swiftshaderName, page, nil), page+1)

	// What looks like a header is data.
	data := append(append(numbers(2*page, page), llvmpipe...), gpusimtest.Pattern(3, 2*page-32)...)
	memory := importMemory(d, memoryFile(t, swiftshaderName, 2*page, data), 2*page)
	all := d.New("cuExternalMemoryGetMappedBuffer", memory, &externalBuffer{size: 2 * page})
	d.Holds(all, data)
	d.OK("cuMemFree_v2", all)
	d.OK("cuDestroyExternalMemory", memory)

	handle := create(t, d, granularity)
	d.Write(mapping(t, d, handle, granularity), gpusimtest.Pattern(5, granularity))
	own, file := export(d, handle), make([]byte, granularity)
	if n, err := unix.Pread(own, file, 0); n != len(file) || err != nil || string(file) != string(gpusimtest.Pattern(5, granularity)) {
		t.Errorf("%d bytes, %v: the file does not begin with the memory", n, err)
	}
	again := d.New("cuMemImportFromShareableHandle", own, posixFD)
	d.Holds(mapping(t, d, again, granularity), gpusimtest.Pattern(5, granularity))
	d.OK("cuMemRelease", again)
	refuse("memory of cuMemCreate", gpusimtest.OperatingSystem, own, granularity)
}

// newTimeline makes a timeline: a descriptor of the test's and a semaphore of the driver's.
func newTimeline(t *testing.T, d *driver) (fd int, semaphore uint64) {
	t.Helper()
	fd = int(int32(d.Call("dlx_gpusim_timeline_new")))
	semaphore = d.New("cuImportExternalSemaphore", &externalSemaphore{kind: timelineFD, fd: int32(duplicate(t, fd))})
	t.Cleanup(func() {
		d.OK("cuDestroyExternalSemaphore", semaphore)
		_ = unix.Close(fd)
	})
	return fd, semaphore
}

// at enqueues a wait for a value of a semaphore, or a signal.
func at(d *driver, call string, semaphore, value, stream uint64) {
	d.OK(call, &semaphore, &semaphorePoint{value: value}, 1, stream)
}

// wantValue fails unless a timeline stands at a value.
func wantValue(t *testing.T, d *driver, fd int, want uint64) {
	t.Helper()
	var v uint64
	d.OK("dlx_gpusim_timeline_value", fd, &v)
	equal(t, "the timeline", v, want)
}

// The simulated part of a Vulkan driver.
func TestATimelineOnlyGrows(t *testing.T) {
	d := gpusimtest.Start(t)
	fd := int(int32(d.Call("dlx_gpusim_timeline_new")))
	defer func() { _ = unix.Close(fd) }()
	wantValue(t, d, fd, 0)
	try(t, d, []attempt{
		{"5", 0, "dlx_gpusim_timeline_signal", []any{fd, 5}},
		{"5 again", gpusimtest.InvalidValue, "dlx_gpusim_timeline_signal", []any{fd, 5}},
		{"4", gpusimtest.InvalidValue, "dlx_gpusim_timeline_signal", []any{fd, 4}},
		{"5", 0, "dlx_gpusim_timeline_wait", []any{fd, 5, 0}},
		{"6", gpusimtest.Timeout, "dlx_gpusim_timeline_wait", []any{fd, 6, 1}},
		{"no descriptor", gpusimtest.InvalidValue, "dlx_gpusim_timeline_signal", []any{-1, 6}},
	})
}

// "External Resource Interoperability", cuSignalExternalSemaphoresAsync: "when all prior operations in the stream complete".
func TestASignalComesAfterTheWorkBeforeIt(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, file := d.NewStream(), lavapipeFile(t, page)
	fd, semaphore := newTimeline(t, d)
	vulkan := mapFile(t, file, page, page)
	memory := importMemory(d, file, page)
	buffer := d.New("cuExternalMemoryGetMappedBuffer", memory, &externalBuffer{size: page})
	fill(d, buffer, 0x5A, page, stream)
	at(d, signal, semaphore, 1, stream)
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
	ptr, waiting, other := memory(t, d, 2), d.NewStream(), d.NewStream()
	fd, semaphore := newTimeline(t, d)
	at(d, wait, semaphore, 2, waiting)
	fill(d, ptr, 2, 1, waiting)
	fill(d, ptr+1, 3, 1, other)
	d.OK("cuStreamSynchronize", other)
	time.Sleep(20 * time.Millisecond)
	d.Want(gpusimtest.NotReady, "cuStreamQuery", waiting)
	wantByte(t, d, ptr, 0, "of the stream that waits")
	wantByte(t, d, ptr+1, 3, "of the other stream")
	d.OK("dlx_gpusim_timeline_signal", fd, 1)
	time.Sleep(20 * time.Millisecond)
	d.Want(gpusimtest.NotReady, "cuStreamQuery", waiting)
	d.OK("dlx_gpusim_timeline_signal", fd, 7)
	d.OK("cuStreamSynchronize", waiting)
	d.Holds(ptr, []byte{2})
}

func TestStreamsOrderEachOtherByATimeline(t *testing.T) {
	d := gpusimtest.Start(t)
	const rounds = 20
	ptr, first, second := memory(t, d, rounds+1), d.NewStream(), d.NewStream()
	fd, semaphore := newTimeline(t, d)
	for i := uint64(1); i <= rounds; i++ {
		at(d, wait, semaphore, 2*i-1, second)
		d.OK("cuMemcpyDtoDAsync_v2", ptr+i, ptr+i-1, 1, second)
		at(d, signal, semaphore, 2*i, second)
		at(d, wait, semaphore, 2*i-2, first)
		fill(d, ptr+i-1, byte(i), 1, first)
		at(d, signal, semaphore, 2*i-1, first)
	}
	d.OK("cuStreamSynchronize", second)
	wantValue(t, d, fd, 2*rounds)
	d.Holds(ptr+rounds, []byte{rounds})
	d.OK("cuStreamSynchronize", first)
}

// Several semaphores of one call: all are waited for, all are signalled.
func TestACallMayNameSeveralSemaphores(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	a, first := newTimeline(t, d)
	b, second := newTimeline(t, d)
	both := [2]uint64{first, second}
	d.OK(wait, &both, &[2]semaphorePoint{{value: 1}, {value: 3}}, 2, stream)
	d.OK(signal, &both, &[2]semaphorePoint{{value: 10}, {value: 30}}, 2, stream)
	d.OK("dlx_gpusim_timeline_signal", a, 1)
	time.Sleep(10 * time.Millisecond)
	d.Want(gpusimtest.NotReady, "cuStreamQuery", stream)
	d.OK("dlx_gpusim_timeline_signal", b, 3)
	d.OK("cuStreamSynchronize", stream)
	wantValue(t, d, a, 10)
	wantValue(t, d, b, 30)
}

func TestWrongUseOfASemaphoreIsNoted(t *testing.T) {
	const invalid = gpusimtest.InvalidValue
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	fd, semaphore := newTimeline(t, d)
	for _, call := range []string{signal, wait} {
		try(t, d, []attempt{
			{"flags", invalid, call, []any{&semaphore, &semaphorePoint{value: 1, flags: 1}, 1, stream}},
			{"no values", invalid, call, []any{&semaphore, nil, 1, stream}},
			{"no list", invalid, call, []any{nil, &semaphorePoint{value: 1}, 1, stream}},
			{"no semaphores", invalid, call, []any{&semaphore, &semaphorePoint{value: 1}, 0, stream}},
		})
		d.WantMisuse(gpusimtest.InvalidHandle, call, &[1]uint64{4711}, &semaphorePoint{value: 1}, 1, stream)
		d.WantMisuse(gpusimtest.InvalidHandle, call, &semaphore, &semaphorePoint{value: 1}, 1, 4711)
	}
	d.OK("dlx_gpusim_timeline_signal", fd, 5)
	for _, v := range []uint64{5, 4} {
		at(d, signal, semaphore, v, stream)
		d.OK("cuStreamSynchronize", stream)
		d.Noted()
	}
	wantValue(t, d, fd, 5)
	early := d.New("cuImportExternalSemaphore", &externalSemaphore{kind: timelineFD, fd: int32(duplicate(t, fd))})
	release := d.Hold()
	at(d, signal, early, 6, stream)
	d.OK("cuDestroyExternalSemaphore", early)
	release()
	d.OK("cuStreamSynchronize", stream)
	d.Noted()
	d.WantMisuse(gpusimtest.InvalidHandle, signal, &early, &semaphorePoint{value: 7}, 1, stream)
}

func TestWhatIsNoTimelineIsNotImportedAndStaysTheCallers(t *testing.T) {
	d := gpusimtest.Start(t)
	memory, fd := lavapipeFile(t, page), int(int32(d.Call("dlx_gpusim_timeline_new")))
	defer func() { _, _ = unix.Close(memory), unix.Close(fd) }()
	for _, c := range []struct {
		name string
		desc externalSemaphore
		want result
	}{
		{"a closed descriptor", externalSemaphore{kind: timelineFD, fd: -1}, gpusimtest.InvalidValue},
		{"a device", externalSemaphore{kind: timelineFD, fd: int32(open(t, os.DevNull))}, gpusimtest.OperatingSystem},
		{"memory", externalSemaphore{kind: timelineFD, fd: int32(memory)}, gpusimtest.OperatingSystem},
		{"a binary semaphore", externalSemaphore{kind: 1, fd: int32(fd)}, gpusimtest.NotSupported},
		{"a handle of Windows", externalSemaphore{kind: 10, fd: int32(fd)}, gpusimtest.NotSupported},
		{"no kind", externalSemaphore{fd: int32(fd)}, gpusimtest.InvalidValue},
		{"flags", externalSemaphore{kind: timelineFD, fd: int32(fd), flags: 1}, gpusimtest.InvalidValue},
	} {
		equal(t, c.name, d.Result("cuImportExternalSemaphore", new(uint64), &c.desc), c.want)
		if c.desc.fd >= 0 && !isOpen(int(c.desc.fd)) {
			t.Errorf("%s: the descriptor was taken", c.name)
		}
	}
}

// While work is held back, what somebody waits for runs, and so what sets the value that this waits for.
func TestHeldWorkRunsForAWaitBehindASemaphore(t *testing.T) {
	d := gpusimtest.Start(t)
	setting, waiting := d.NewStream(), d.NewStream()
	_, semaphore := newTimeline(t, d)
	d.Hold()
	at(d, wait, semaphore, 1, waiting)
	at(d, signal, semaphore, 1, setting)
	d.OK("cuStreamSynchronize", waiting)
}
