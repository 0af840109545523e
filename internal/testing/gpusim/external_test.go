//go:build linux && cgo

package gpusim_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// externalHandle is CUDA_EXTERNAL_MEMORY_HANDLE_DESC, externalBuffer
// CUDA_EXTERNAL_MEMORY_BUFFER_DESC.
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

const (
	opaqueFD     = 1
	dedicated    = 1
	page         = 4096
	lavapipeTail = 40 // bytes behind the memory in a file of lavapipe
)

// llvmpipe is the mark of Mesa's driver: 16 bytes of the SHA-1 of its name.
var llvmpipe = []byte{0x6c, 0xb9, 0xee, 0x07, 0x4a, 0x0b, 0xad, 0x7b, 0x01, 0x2e, 0x1b, 0xe9, 0x69, 0x7e, 0x53, 0x0f}

// lavapipeFile is a descriptor as Vulkan exports it on lavapipe: the file's size, where
// the memory begins, the driver's mark, and the memory with some bytes behind it.
func lavapipeFile(t *testing.T, size int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("as of lavapipe", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	whole := page + size + lavapipeTail
	head := binary.NativeEndian.AppendUint64(nil, uint64(whole))
	head = binary.NativeEndian.AppendUint64(head, page)
	if err := unix.Ftruncate(fd, int64(whole)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Pwrite(fd, append(head, llvmpipe...), 0); err != nil {
		t.Fatal(err)
	}
	return fd
}

// isOpen reports whether a descriptor is open.
func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// "External Resource Interoperability", cuImportExternalMemory: the descriptor is the
// driver's once it was imported.
func TestMemoryOfVulkanIsShared(t *testing.T) {
	d := gpusimtest.Start(t)
	const size = 3 * page
	fd := lavapipeFile(t, size)
	vulkan, err := unix.Mmap(fd, page, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(vulkan) }()
	copy(vulkan, gpusimtest.Pattern(3, size))

	var memory, all, part uint64
	d.OK("cuImportExternalMemory", &memory, &externalHandle{kind: opaqueFD, fd: int32(fd), size: size, flags: dedicated})
	d.OK("cuExternalMemoryGetMappedBuffer", &all, memory, &externalBuffer{size: size})
	d.OK("cuExternalMemoryGetMappedBuffer", &part, memory, &externalBuffer{offset: 100, size: size - 100})
	d.Holds(all, gpusimtest.Pattern(3, size))
	d.Holds(part, gpusimtest.Pattern(3, size)[100:])
	d.Write(part, []byte("written by CUDA"))
	if got := string(vulkan[100:115]); got != "written by CUDA" {
		t.Errorf("Vulkan finds %q", got)
	}
	data := make([]byte, size+1)
	d.Want(gpusimtest.InvalidValue, "cuMemcpyDtoH_v2", &data[0], all, size+1)

	d.OK("cuMemFree_v2", part)
	d.OK("cuDestroyExternalMemory", memory)
	if isOpen(fd) {
		t.Error("the descriptor is still open")
	}
	d.WantMisuse(gpusimtest.InvalidHandle, "cuDestroyExternalMemory", memory)
	d.OK("cuMemFree_v2", all)
}

// cuDestroyExternalMemory: "Any existing buffers [...] must no longer be used and must be explicitly freed".
func TestABufferIsNotUsedBeyondItsMemory(t *testing.T) {
	d := gpusimtest.Start(t)
	var memory, buffer, stream uint64
	d.OK("cuStreamCreate", &stream, 1)
	d.OK("cuImportExternalMemory", &memory, &externalHandle{kind: opaqueFD, fd: int32(lavapipeFile(t, page)), size: page})
	d.OK("cuExternalMemoryGetMappedBuffer", &buffer, memory, &externalBuffer{size: page})
	d.Call("dlx_gpusim_hold", 1)
	d.OK("cuMemsetD8Async", buffer, 1, 1, stream)
	d.OK("cuDestroyExternalMemory", memory)
	d.Call("dlx_gpusim_hold", 0)
	d.Illegal("cuStreamSynchronize", stream)
}

// A descriptor of cuMemExportToShareableHandle is in lavapipe's layout, so Vulkan imports it.
func TestExportedMemoryHasTheLayoutOfVulkans(t *testing.T) {
	d := gpusimtest.Start(t)
	handle := create(t, d, granularity)
	ptr := mapping(t, d, handle, granularity)
	d.Write(ptr, gpusimtest.Pattern(5, granularity))
	var fd int32
	d.OK("cuMemExportToShareableHandle", &fd, handle, posixFD, 0)

	file := make([]byte, page+granularity)
	if n, err := unix.Pread(int(fd), file, 0); n != len(file) || err != nil {
		t.Fatal(n, err)
	}
	if size, begin := binary.NativeEndian.Uint64(file), binary.NativeEndian.Uint64(file[8:]); size != page+granularity || begin != page {
		t.Errorf("the file tells %d bytes, from %d", size, begin)
	}
	if string(file[16:32]) != string(llvmpipe) {
		t.Errorf("the mark is % x", file[16:32])
	}
	if string(file[page:]) != string(gpusimtest.Pattern(5, granularity)) {
		t.Error("the memory is not there")
	}

	if err := unix.Close(int(fd)); err != nil {
		t.Error(err)
	}
}

// cuImportExternalMemory is for the memory of other APIs, cuMemImportFromShareableHandle for
// that of cuMemCreate: of "handles exported from some graphics APIs" it says that they "may
// not be supported".
func TestEachDescriptorHasItsDoor(t *testing.T) {
	d := gpusimtest.Start(t)
	var own int32
	d.OK("cuMemExportToShareableHandle", &own, create(t, d, granularity), posixFD, 0)
	vulkans := lavapipeFile(t, granularity-lavapipeTail)
	defer func() {
		for _, fd := range []int{int(own), vulkans} {
			if err := unix.Close(fd); err != nil {
				t.Errorf("the descriptor was taken, and nothing imported: %v", err)
			}
		}
	}()
	var out uint64
	d.Want(gpusimtest.OperatingSystem, "cuImportExternalMemory", &out, &externalHandle{kind: opaqueFD, fd: own, size: granularity})
	d.Want(gpusimtest.NotSupported, "cuMemImportFromShareableHandle", &out, vulkans, posixFD)
}

func TestWhatIsNoMemoryIsNotImportedAndStaysTheCallers(t *testing.T) {
	d := gpusimtest.Start(t)
	var ends, sockets [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	sockets, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	open := func(name string) int {
		fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	null, plain := open(os.DevNull), open(filepath.Join(t.TempDir(), "plain"))
	if err := unix.Ftruncate(plain, 1<<20); err != nil {
		t.Fatal(err)
	}
	empty, err := unix.MemfdCreate("empty", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	short, liar := lavapipeFile(t, page), lavapipeFile(t, page)
	if err := unix.Ftruncate(short, page); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Pwrite(liar, binary.NativeEndian.AppendUint64(nil, 1<<40), 0); err != nil {
		t.Fatal(err)
	}
	good, timeline := lavapipeFile(t, page), int(int32(d.Call("dlx_gpusim_timeline_new")))
	fds := []int{ends[0], ends[1], sockets[0], sockets[1], null, plain, empty, short, liar, good, timeline}
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for _, c := range []struct {
		name string
		desc externalHandle
		want gpusimtest.Result
	}{
		{"a closed descriptor", externalHandle{kind: opaqueFD, fd: -1, size: page}, gpusimtest.InvalidValue},
		{"a number that is none", externalHandle{kind: opaqueFD, fd: 1 << 30, size: page}, gpusimtest.InvalidValue},
		{"a pipe", externalHandle{kind: opaqueFD, fd: int32(ends[0]), size: page}, gpusimtest.OperatingSystem},
		{"a socket", externalHandle{kind: opaqueFD, fd: int32(sockets[0]), size: page}, gpusimtest.OperatingSystem},
		{"a device", externalHandle{kind: opaqueFD, fd: int32(null), size: page}, gpusimtest.OperatingSystem},
		{"a file", externalHandle{kind: opaqueFD, fd: int32(plain), size: page}, gpusimtest.OperatingSystem},
		{"an empty file in memory", externalHandle{kind: opaqueFD, fd: int32(empty), size: page}, gpusimtest.OperatingSystem},
		{"memory that was cut", externalHandle{kind: opaqueFD, fd: int32(short), size: page}, gpusimtest.OperatingSystem},
		{"memory that tells more than it has", externalHandle{kind: opaqueFD, fd: int32(liar), size: page}, gpusimtest.OperatingSystem},
		{"a semaphore", externalHandle{kind: opaqueFD, fd: int32(timeline), size: page}, gpusimtest.OperatingSystem},
		{"more than there is", externalHandle{kind: opaqueFD, fd: int32(good), size: 2 * page}, gpusimtest.InvalidValue},
		{"no bytes", externalHandle{kind: opaqueFD, fd: int32(good)}, gpusimtest.InvalidValue},
		{"flags that nobody knows", externalHandle{kind: opaqueFD, fd: int32(good), size: page, flags: 2}, gpusimtest.InvalidValue},
		{"a handle of Windows", externalHandle{kind: 2, fd: int32(good), size: page}, gpusimtest.NotSupported},
		{"no kind", externalHandle{fd: int32(good), size: page}, gpusimtest.InvalidValue},
		{"a kind that nobody knows", externalHandle{kind: 99, fd: int32(good), size: page}, gpusimtest.InvalidValue},
	} {
		d.Run(t, c.name, func(t *testing.T, d *gpusimtest.Driver) {
			var memory uint64
			d.Want(c.want, "cuImportExternalMemory", &memory, &c.desc)
		})
	}
	for _, fd := range fds {
		if !isOpen(fd) {
			t.Errorf("descriptor %d was taken, and nothing imported", fd)
		}
	}
}

func TestABufferLiesInItsMemory(t *testing.T) {
	d := gpusimtest.Start(t)
	var memory, buffer uint64
	d.OK("cuImportExternalMemory", &memory, &externalHandle{kind: opaqueFD, fd: int32(lavapipeFile(t, 2*page)), size: page})
	for _, c := range []struct {
		name string
		desc externalBuffer
	}{
		{"no bytes", externalBuffer{}},
		{"more than was imported", externalBuffer{size: page + 1}},
		{"beyond the end", externalBuffer{offset: page, size: 1}},
		{"an offset that wraps around", externalBuffer{offset: 1 << 63, size: 1 << 63}},
		{"flags", externalBuffer{size: page, flags: 1}},
	} {
		d.Run(t, c.name, func(_ *testing.T, d *gpusimtest.Driver) {
			d.Want(gpusimtest.InvalidValue, "cuExternalMemoryGetMappedBuffer", &buffer, memory, &c.desc)
		})
	}
	d.OK("cuDestroyExternalMemory", memory)
	d.WantMisuse(gpusimtest.InvalidHandle, "cuExternalMemoryGetMappedBuffer", &buffer, memory, &externalBuffer{size: page})
}

// Opaque descriptors are good between drivers of one device.
func TestMemoryOfAnotherDeviceIsNotImported(t *testing.T) {
	d := gpusimtest.Start(t)
	fd := lavapipeFile(t, page)
	defer func() { _ = unix.Close(fd) }()
	d.Retain(1)
	var memory uint64
	d.Want(gpusimtest.InvalidDevice, "cuImportExternalMemory", &memory, &externalHandle{kind: opaqueFD, fd: int32(fd), size: page})
}

// A failing import by injection takes nothing.
func TestAnInjectedFaultLeavesTheDescriptor(t *testing.T) {
	d := gpusimtest.Start(t)
	fd := lavapipeFile(t, page)
	defer func() { _ = unix.Close(fd) }()
	failNext(d, "cuImportExternalMemory", gpusimtest.OutOfMemory)
	var memory uint64
	d.Want(gpusimtest.OutOfMemory, "cuImportExternalMemory", &memory, &externalHandle{kind: opaqueFD, fd: int32(fd), size: page})
	if !isOpen(fd) {
		t.Error("the descriptor was taken")
	}
}

// swiftshaderFile is a descriptor as Vulkan exports it on SwiftShader: the memory and nothing else.
func swiftshaderFile(t *testing.T, name string, size int) int {
	t.Helper()
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		t.Fatal(err)
	}
	return fd
}

// plainWanted asks this program, run again, for the layout of SwiftShader's files.
const plainWanted = "GPUSIM_TEST_PLAIN_FILES"

// A device that is SwiftShader's shares files as SwiftShader has them, and no others.
func TestMemoryHasTheLayoutOfTheOtherDriver(t *testing.T) {
	d := gpusimtest.Start(t)
	if os.Getenv(plainWanted) == "" {
		program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		program.Env = append(os.Environ(), "DLX_GPUSIM_PLAIN_FILES=1", plainWanted+"=1")
		if out, err := program.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	refuse := func(what string, want gpusimtest.Result, fd, size int) {
		t.Helper()
		var memory uint64
		if r := d.Result("cuImportExternalMemory", &memory, &externalHandle{kind: opaqueFD, fd: int32(fd), size: uint64(size)}); r != want {
			t.Errorf("%s: %v, want %v", what, r, want)
		}
		if err := unix.Close(fd); err != nil {
			t.Errorf("%s: the descriptor was taken: %v", what, err)
		}
	}
	const name = "SwiftShader.Memory.1"
	refuse("a file of Mesa's", gpusimtest.OperatingSystem, lavapipeFile(t, page), page)
	refuse("a semaphore of SwiftShader's", gpusimtest.OperatingSystem, swiftshaderFile(t, "SwiftShader.Semaphore.1", page), page)
	refuse("memory of SwiftShader's that is empty", gpusimtest.OperatingSystem, swiftshaderFile(t, name, 0), page)
	refuse("more than there is", gpusimtest.InvalidValue, swiftshaderFile(t, name, page), page+1)

	fd := swiftshaderFile(t, name, 2*page)
	// What looks like a header is data.
	data := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 2*page), page)
	data = append(append(data, llvmpipe...), gpusimtest.Pattern(3, 2*page-32)...)
	if _, err := unix.Pwrite(fd, data, 0); err != nil {
		t.Fatal(err)
	}
	var memory, all uint64
	d.OK("cuImportExternalMemory", &memory, &externalHandle{kind: opaqueFD, fd: int32(fd), size: 2 * page})
	d.OK("cuExternalMemoryGetMappedBuffer", &all, memory, &externalBuffer{size: 2 * page})
	d.Holds(all, data)
	d.OK("cuMemFree_v2", all)
	d.OK("cuDestroyExternalMemory", memory)

	handle := create(t, d, granularity)
	ptr := mapping(t, d, handle, granularity)
	d.Write(ptr, gpusimtest.Pattern(5, granularity))
	var own int32
	d.OK("cuMemExportToShareableHandle", &own, handle, posixFD, 0)
	file := make([]byte, granularity)
	if n, err := unix.Pread(int(own), file, 0); n != len(file) || err != nil || string(file) != string(gpusimtest.Pattern(5, granularity)) {
		t.Errorf("%d bytes, %v: the file does not begin with the memory", n, err)
	}
	var again uint64
	d.OK("cuMemImportFromShareableHandle", &again, int(own), posixFD)
	d.Holds(mapping(t, d, again, granularity), gpusimtest.Pattern(5, granularity))
	d.OK("cuMemRelease", again)
	refuse("memory of cuMemCreate", gpusimtest.OperatingSystem, int(own), granularity)
}

// Without the UUID of SwiftShader there is nothing to share with it.
func TestMemoryOfAnotherDriverIsNotImported(t *testing.T) {
	d := gpusimtest.Start(t)
	fd := swiftshaderFile(t, "SwiftShader.Memory.1", 2*page)
	defer func() { _ = unix.Close(fd) }()
	// A header that Mesa's drivers would trust.
	head := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 2*page), page)
	if _, err := unix.Pwrite(fd, head, 0); err != nil {
		t.Fatal(err)
	}
	var memory uint64
	d.Want(gpusimtest.OperatingSystem, "cuImportExternalMemory", &memory, &externalHandle{kind: opaqueFD, fd: int32(fd), size: page})
}
