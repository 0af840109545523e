//go:build unix

package parts

import (
	"os"
	"syscall"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// Mapped is memory of a file of its own, which was removed already, from skip bytes
// into it on. Without write it can only be read. Its tensors unmap it.
func Mapped(skip int64, fill []byte, write bool) (core.Memory, error) {
	fail := func(call string, err error) (core.Memory, error) {
		return core.Memory{}, core.Errorf(core.ErrOutOfMemory, "soak", call, "%v", err)
	}
	f, err := os.CreateTemp("", "soak")
	if err != nil {
		return fail("CreateTemp", err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return fail("Remove", err)
	}
	size := skip + int64(len(fill)) + 1
	if err := f.Truncate(size); err != nil {
		return fail("Truncate", err)
	}
	if _, err := f.WriteAt(fill, skip); err != nil {
		return fail("WriteAt", err)
	}
	access := syscall.PROT_READ
	if write {
		access |= syscall.PROT_WRITE
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(size), access, syscall.MAP_SHARED)
	if err != nil {
		return fail("mmap", err)
	}
	return core.Memory{
		ID: core.CPU, Handle: uintptr(unsafe.Pointer(&b[0])) + uintptr(skip), Size: int64(len(fill)),
		Owner: core.FreeFunc(func() { _ = syscall.Munmap(b) }),
	}, nil
}
