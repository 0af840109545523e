package external

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// CheckFD proves for a call that a descriptor of type t is open and may stand for size
// bytes, which are 0 for a semaphore: beyond what there is, an access may end the process. A
// dma-buf and a file tell their size; what else stands for memory of a GPU does not. It
// fails with ErrInvalid.
func (i *Importer) CheckFD(call string, t core.HandleType, fd int, size int64) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return SystemError(core.ErrInvalid, i.Backend, call, err, "FD %d is no open descriptor", fd)
	}
	kind := stat.Mode & unix.S_IFMT
	file, read := kind == unix.S_IFREG, i.Software && t == core.HandleOpaqueFD
	if kind == unix.S_IFIFO || kind == unix.S_IFSOCK || kind == unix.S_IFDIR || read && !file {
		return i.errorf(core.ErrInvalid, call, "FD %d is no memory (its mode is %#o): a driver that reads it might wait for ever", fd, stat.Mode)
	}
	if !file && stat.Size == 0 {
		return nil
	}
	has := stat.Size
	if read {
		has = bytesBehindHead(fd, has)
	}
	if has < size {
		return i.errorf(core.ErrInvalid, call, "Size is %d bytes, but FD %d has %d: its owner tells the size of the whole allocation", size, fd, has)
	}
	return nil
}

// bytesBehindHead is how much memory a file of Mesa's drivers for the CPU has. It begins with two
// words, the size of the file and where the memory begins, which those drivers believe.
func bytesBehindHead(fd int, size int64) int64 {
	var head [16]byte
	if n, err := unix.Pread(fd, head[:], 0); err != nil || n < len(head) {
		return size
	}
	claimed, begin := binary.NativeEndian.Uint64(head[:]), binary.NativeEndian.Uint64(head[8:])
	if claimed > uint64(size) || begin > claimed {
		return 0
	}
	return int64(claimed - begin)
}

// Give has a driver import fd for a call: give gets a duplicate, and says whether the
// driver owns that from then on, be it with an error or without; else Give closes it. On
// success Give closes fd too, which is the caller's on failure: then the error is that of
// give, ErrInvalid for a descriptor that is closed, or ErrOutOfMemory where no more can be had.
func (i *Importer) Give(call string, fd int, give func(fd int) (taken bool, err error)) error {
	own, err := Duplicate(i.Backend, call, fd)
	if err != nil {
		return err
	}
	taken, err := give(own)
	if !taken {
		_ = unix.Close(own)
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// Duplicate returns a second descriptor of the same, which the caller owns and programs
// that are started do not inherit. It fails with ErrInvalid if fd is closed and with
// ErrOutOfMemory where no more descriptors can be had.
func Duplicate(backend, call string, fd int) (int, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EBADF):
		return -1, SystemError(core.ErrInvalid, backend, call, err, "FD %d is no open descriptor", fd)
	case err != nil:
		return -1, SystemError(core.ErrOutOfMemory, backend, call, err, "no descriptor left; close some or raise RLIMIT_NOFILE")
	}
	return own, nil
}

// Memory is ImportMemory by a descriptor of m, which CheckMemory has passed: it checks the
// descriptor and has open import a duplicate, as [Importer.Give] does. The result knows
// what it was imported from.
func (i *Importer) Memory(m core.ExternalMemory, open func(fd int) (_ core.Memory, taken bool, err error)) (core.Memory, error) {
	const call = "ImportMemory"
	if err := i.CheckFD(call, m.Type, m.FD, m.Size); err != nil {
		return core.Memory{}, err
	}
	backing := m.Backing()
	var imported core.Memory
	err := i.Give(call, m.FD, func(fd int) (taken bool, err error) {
		imported, taken, err = open(fd)
		return taken, err
	})
	if err != nil {
		return core.Memory{}, err
	}
	imported.Backing = backing
	return imported, nil
}
