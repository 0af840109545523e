package doctor

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/internal/memfault"
)

// size is the bytes of the memory that is tried: a page, which udmabuf and drivers ask for.
const size = 4096

// seed returns the number of a new pattern.
func seed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// pattern returns the bytes of a number.
func pattern(seed uint64) []byte {
	b := make([]byte, size)
	x := seed
	for i := 0; i < size; i += 8 {
		x += 0x9e3779b97f4a7c15
		y := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		binary.LittleEndian.PutUint64(b[i:], y^y>>27)
	}
	return b
}

// reply returns the pattern that the other process writes where it has found that of seed.
func reply(seed uint64) []byte { return pattern(^seed) }

// same fails unless both are the same bytes.
func same(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	return fmt.Errorf("the bytes are not those that were written: it is other memory")
}

// mapped maps a page of a file.
func mapped(fd int) ([]byte, error) {
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return b, os.NewSyscallError("mmap", err)
}

// touch runs f, which uses mapped memory, and returns an error if the memory is not there: the
// other process may have taken it away.
func touch(b []byte, f func()) error { return memfault.Guard(memfault.Within(b), f) }

// exchanged compares memory with the pattern of seed, and writes the reply there.
func exchanged(b []byte, seed uint64) error {
	var differ error
	err := touch(b, func() {
		if differ = same(b, pattern(seed)); differ == nil {
			copy(b, reply(seed))
		}
	})
	if err != nil {
		return err
	}
	return differ
}

// answered compares memory with the reply to seed.
func answered(b []byte, seed uint64) error {
	var differ error
	err := touch(b, func() {
		if same(b, reply(seed)) != nil {
			differ = fmt.Errorf("the other process has changed the memory, and the change does not show: it has a copy")
		}
	})
	if err != nil {
		return err
	}
	return differ
}

// newMemFD makes a page of memory as a descriptor, which cannot become smaller, with the pattern
// of seed. The caller owns both results.
func newMemFD(seed uint64) (fd int, b []byte, err error) {
	fd, err = unix.MemfdCreate("dlx-doctor", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, nil, os.NewSyscallError("memfd_create", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
			fd = -1
		}
	}()
	if _, err = unix.Write(fd, pattern(seed)); err != nil {
		return fd, nil, os.NewSyscallError("write", err)
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return fd, nil, os.NewSyscallError("fcntl(F_ADD_SEALS)", err)
	}
	b, err = mapped(fd)
	return fd, b, err
}
