//go:build linux && cgo

package cudaliketest

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// This file stands in for a driver that shares memory with the one that is tested: Vulkan on the CPU. The host can use its
// memory, and the simulator understands its opaque descriptors.

// head is the offset of the memory in the file of such a descriptor.
const head = 4096

// View maps the memory of an opaque descriptor for the host.
func View(t testing.TB, fd int, size int64) []byte {
	t.Helper()
	return ViewFrom(t, fd, head, size)
}

// ViewFrom maps size bytes of a file, from an offset on.
func ViewFrom(t testing.TB, fd int, offset, size int64) []byte {
	t.Helper()
	p, err := unix.Mmap(fd, offset, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(p) })
	return p
}

// Foreign makes memory of the other driver. The caller must import or close it.
func Foreign(t testing.TB, d core.Device, size int64) (core.ExternalMemory, []byte) {
	t.Helper()
	fd, err := unix.MemfdCreate("memory of another driver", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	words := binary.NativeEndian.AppendUint64(nil, uint64(head+size))
	words = binary.NativeEndian.AppendUint64(words, head)
	if _, err := unix.Pwrite(fd, words, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(fd, head+size); err != nil {
		t.Fatal(err)
	}
	h, err := backendkit.NewHandle(core.HandleOpaqueFD, uintptr(fd))
	if err != nil {
		t.Fatal(err)
	}
	return core.ExternalMemory{
		Handle: h, Size: size, Length: size, MemoryType: 0,
		DeviceUUID: d.Properties().UUID, DriverUUID: core.UUID{0x1a, 0x7a},
	}, View(t, fd, size)
}
