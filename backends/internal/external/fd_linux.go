package external

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// CheckFD checks for a call that a descriptor of type t is open and may stand for size
// bytes, which are 0 for a semaphore: beyond what there is, an access may end the process. A
// dma-buf and a file tell their size; what else stands for memory of a GPU does not. It
// fails with ErrInvalid.
func (i *Importer) CheckFD(call string, t core.HandleType, fd int, size int64) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return SystemError(core.ErrInvalid, i.Backend, call, err, "the descriptor is not open")
	}
	kind := stat.Mode & unix.S_IFMT
	file, opaque := kind == unix.S_IFREG, t == core.HandleOpaqueFD
	read := i.Software && opaque
	if kind == unix.S_IFIFO || kind == unix.S_IFSOCK || kind == unix.S_IFDIR || opaque && (i.Software || i.Files) && !file {
		return i.errorf(core.ErrInvalid, call, "the descriptor is not memory (its mode is %#o): a driver that reads it might wait for ever", stat.Mode)
	}
	if !file && stat.Size == 0 {
		return nil
	}
	has := stat.Size
	if read {
		has = bytesBehindHead(fd, has)
	}
	if has < size {
		return i.errorf(core.ErrInvalid, call, "Size is %d bytes, but the descriptor has %d: its owner tells the size of the whole allocation", size, has)
	}
	return nil
}

// CheckExported fails with ErrNotSupported if a driver gave fd for memory as a dma-buf, and it is a memfd: Mesa's drivers for the
// CPU give that whatever they were asked for, and no other API opens it as a dma-buf. fd stays open.
func CheckExported(backend, call string, t core.HandleType, fd int) error {
	if t != core.HandleDMABuf {
		return nil
	}
	if seals, _ := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); seals < 0 { // only memfds have seals
		return nil
	}
	return core.Errorf(core.ErrNotSupported, backend, call, "the driver was asked for a dma-buf and gave a memfd: export as %v", core.HandleOpaqueFD)
}

// bytesBehindHead returns how much memory follows the header in a file of Mesa's drivers for the CPU. The
// header has two words, the size of the file and the offset of the memory, which those drivers trust.
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
