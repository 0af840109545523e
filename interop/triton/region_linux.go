//go:build linux

package triton

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"golang.org/x/sys/unix"
)

// hasShared says whether this system has memory that a server opens by name.
const hasShared = true

// folder is where shm_open of the C library finds its names. Tests use others.
const defaultFolder = "/dev/shm"

// prefix begins the names of all regions. The number of the process follows, for people, and then a random part.
const prefix = "dlx-triton-"

// file is a region in shared memory of the system. It owns the descriptor, the mapping and the name.
type file struct {
	path   string
	fd     int
	memory []byte
}

// newFile makes a file of size bytes, which is a multiple of a page. No page is allocated yet. The caller closes the file.
func newFile(folder string, size int64) (*file, error) {
	const call = "shm_open"
	for range 10 {
		var random [16]byte
		_, _ = rand.Read(random[:]) // never fails
		path := filepath.Join(folder, prefix+strconv.Itoa(os.Getpid())+"-"+hex.EncodeToString(random[:]))
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, systemError(call, err, "a file in "+folder)
		}
		f := &file{path: path, fd: fd}
		locked, err := f.lock()
		if err == nil && locked {
			if err = unix.Ftruncate(fd, size); err == nil {
				f.memory, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			}
		}
		if err != nil {
			f.unlink()
			f.close()
			return nil, systemError(call, err, fmt.Sprintf("%d bytes in %s", size, folder))
		}
		if locked {
			return f, nil
		}
		// Another process took the file for one without an owner, between the two calls.
		f.close()
	}
	return nil, core.Errorf(core.ErrExists, backend, call, "ten names in %s were taken or removed", folder)
}

// lock locks the file, and reports whether it still has its name: a process that looks for files without an owner could
// have found it before it was locked.
func (f *file) lock() (bool, error) {
	if err := unix.Flock(f.fd, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return hasName(f.fd)
}

func hasName(fd int) (bool, error) {
	var s unix.Stat_t
	err := unix.Fstat(fd, &s)
	return err == nil && s.Nlink > 0, err
}

// name returns the name of the file, by which the server opens it after a slash.
func (f *file) name() string { return filepath.Base(f.path) }

// reserve allocates the pages of a range. Without that, a write to a page for which the system has no memory ends the process.
func (f *file) reserve(offset, size int64) error {
	for {
		err := unix.Fallocate(f.fd, 0, offset, size)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return systemError("fallocate", err, fmt.Sprintf("%d bytes in %s", size, filepath.Dir(f.path)))
		}
		return nil
	}
}

func (f *file) base() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(f.memory))) }

// unlink removes the name. The memory stays until it is unmapped by all.
func (f *file) unlink() { _ = unix.Unlink(f.path) }

// close unmaps the memory, and closes the descriptor and with it the lock.
func (f *file) close() {
	if f.memory != nil {
		_ = unix.Munmap(f.memory)
	}
	_ = unix.Close(f.fd)
}

// sweep removes the files of this user whose owner has ended, and returns their names.
func sweep(folder string) []string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var removed []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && e.Type().IsRegular() && removeDead(filepath.Join(folder, e.Name())) {
			removed = append(removed, e.Name())
		}
	}
	return removed
}

// removeDead removes a file that nobody has locked, and reports whether it did.
func removeDead(path string) bool {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	var s unix.Stat_t
	if unix.Fstat(fd, &s) != nil || s.Uid != uint32(os.Geteuid()) || s.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	// While the lock is held, nobody else removes the file. Its name is random, so that no other file has got it since.
	named, err := hasName(fd)
	return err == nil && named && unix.Unlink(path) == nil
}

// systemError is the error of a system call.
func systemError(call string, err error, what string) error {
	sentinel := core.ErrNotSupported
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.EDQUOT):
		sentinel = core.ErrOutOfMemory
	}
	e := core.Errorf(sentinel, backend, call, "%s: %v", what, err)
	var number unix.Errno
	if errors.As(err, &number) {
		e.Code = int64(number)
	}
	return e
}
