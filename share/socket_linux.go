package share

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// network is the kind of sockets: connections that keep the bounds of messages.
const network = "unixpacket"

// available returns why the package does not work on this system: nil here.
func available(string) error { return nil }

// sockets reads and writes the messages of a connection.
type sockets struct {
	*net.UnixConn
	raw syscall.RawConn
	oob []byte // for the descriptors of a message that is read

	// What attempt sends, and its result. The lock of the writer guards them.
	message []byte
	rights  []byte
	failed  error
	attempt func(fd uintptr)
}

func newSockets(c *net.UnixConn) (*sockets, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &sockets{UnixConn: c, raw: raw, oob: make([]byte, unix.CmsgSpace(4*(maxFDs+1)))}
	s.attempt = func(fd uintptr) {
		_, s.failed = unix.SendmsgN(int(fd), s.message, s.rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}
	return s, nil
}

// checkSocket fails unless c is a connection that keeps the bounds of messages, and returns who
// is at its other end.
func checkSocket(c *net.UnixConn) (Peer, error) {
	const call = "New"
	raw, err := c.SyscallConn()
	if err != nil {
		return Peer{}, systemError(core.ErrClosed, call, err, "the connection is not open")
	}
	var p Peer
	var failed error
	err = raw.Control(func(fd uintptr) {
		kind, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE)
		if err != nil || kind != unix.SOCK_SEQPACKET {
			failed = core.Errorf(core.ErrInvalid, "share", call, "the connection is not of the type SOCK_SEQPACKET (%q)", network)
			return
		}
		who, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			failed = systemError(core.ErrInvalid, call, err, "the process at the other end is not known")
			return
		}
		p = Peer{PID: who.Pid, UID: who.Uid, GID: who.Gid}
	})
	if err != nil {
		return Peer{}, systemError(core.ErrClosed, call, err, "the connection is not open")
	}
	return p, failed
}

// systemError is the error of a call of the system, with its code.
func systemError(sentinel error, call string, err error, format string, args ...any) error {
	e := core.Errorf(causeError{sentinel, err}, "share", call, format, args...)
	e.Detail += ": " + err.Error()
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Code = int64(errno)
	}
	return e
}

// read reads a message into b and returns the descriptors that came with it, which the caller
// closes, also after an error.
func (s *sockets) read(b []byte) (n int, fds []int, err error) {
	n, oobn, flags, _, err := s.ReadMsgUnix(b, s.oob)
	if errors.Is(err, unix.ECONNRESET) { // the peer has closed without reading all; what it wrote comes now
		n, oobn, flags, _, err = s.ReadMsgUnix(b, s.oob)
	}
	if oobn > 0 {
		list, parsed := unix.ParseSocketControlMessage(s.oob[:oobn])
		for i := range list {
			more, _ := unix.ParseUnixRights(&list[i])
			fds = append(fds, more...)
		}
		if parsed != nil && err == nil {
			err = violation("what came beside a message cannot be read: %v", parsed)
		}
	}
	switch {
	case err != nil:
	case flags&unix.MSG_CTRUNC != 0 && len(fds) <= maxFDs:
		err = errNoDescriptor
	case flags&unix.MSG_CTRUNC != 0 || len(fds) > maxFDs:
		err = violation("more than %d descriptors came with a message", maxFDs)
	case flags&unix.MSG_TRUNC != 0:
		err = violation("a message has more than %d bytes", maxMessage)
	}
	return n, fds, err
}

// closeFDs closes descriptors that came with a message.
func closeFDs(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// try sends a message with a descriptor, if fd is not -1, and reports false if the peer has to
// read first. The caller has the lock of the writer.
func (s *sockets) try(b []byte, fd int) (bool, error) {
	s.message, s.rights = b, nil
	if fd >= 0 {
		s.rights = unix.UnixRights(fd)
	}
	if err := s.raw.Control(s.attempt); err != nil {
		return false, err
	}
	if errors.Is(s.failed, unix.EAGAIN) || errors.Is(s.failed, unix.EINTR) {
		return false, nil
	}
	return s.failed == nil, s.failed
}

// write is try, but waits for the peer, until the deadline for writing.
func (s *sockets) write(b []byte, fd int) error {
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	_, _, err := s.WriteMsgUnix(b, rights, nil)
	return err
}

// hungUp reports whether the peer has closed its end. What it has written before may still be unread.
func (s *sockets) hungUp() (gone bool) {
	err := s.raw.Control(func(fd uintptr) {
		list := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(list[:], 0)
		gone = err == nil && n > 0 && list[0].Revents&(unix.POLLHUP|unix.POLLRDHUP|unix.POLLERR) != 0
	})
	return gone || err != nil
}

// checkFile fails unless memory behind a descriptor is safe to map: a file that its owner can
// make smaller would end the process that reads beyond the end. What is not a file is the
// driver's memory, which the driver checks. checkFile returns the seals of a file.
func checkFile(m core.ExternalMemory) (seals int, err error) {
	fd, size, err := fileOf(m)
	if fd < 0 || err != nil {
		return 0, err
	}
	seals, err = unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	return seals, checkSealed(m, fd, size, seals, err)
}

// fileOf returns the descriptor of a memory that is a file, and its size. fd is -1 if the memory is no file.
func fileOf(m core.ExternalMemory) (fd int, size int64, err error) {
	if !m.Handle.Type().IsFD() {
		return -1, 0, nil
	}
	number, err := m.Handle.Number()
	if err != nil {
		return -1, 0, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(number), &stat); err != nil {
		return -1, 0, systemError(core.ErrInvalid, "fstat", err, "the descriptor of a memory is not open")
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG && m.Handle.Type() != core.HandleMemFD {
		return -1, 0, nil
	}
	return int(number), stat.Size, nil
}

// checkSealed is checkFile for a file of size bytes, whose seals were asked for with the error failed.
func checkSealed(m core.ExternalMemory, fd int, size int64, seals int, failed error) error {
	switch {
	case failed != nil:
		return systemError(core.ErrInvalid, "fcntl", failed, "the descriptor of a memory is a file, and not a memfd")
	case seals&unix.F_SEAL_SHRINK == 0:
		return core.Errorf(core.ErrInvalid, "share", "fcntl", "a memfd lacks F_SEAL_SHRINK: its owner could take the memory away; seal it before it is shared")
	case size < m.Size:
		return core.Errorf(core.ErrInvalid, "share", "fstat", "a memory of %d bytes came as a file of %d bytes", m.Size, size)
	}
	return checkPages(fd)
}

// checkPages fails unless a file has normal pages. Huge ones can be missing when they are read, also those
// of a sealed file, which would end this process.
func checkPages(fd int) error {
	var system unix.Statfs_t
	if err := unix.Fstatfs(fd, &system); err != nil {
		return systemError(core.ErrInvalid, "fstatfs", err, "a descriptor is not that of a file")
	}
	if system.Type != unix.TMPFS_MAGIC {
		return core.Errorf(core.ErrInvalid, "share", "fstatfs", "a memfd has pages of a file system of the type %#x, which can be missing: pass one without MFD_HUGETLB", uint64(system.Type))
	}
	return nil
}

// checkSemaphore fails unless a semaphore is safe to open. That of a software driver is a file that
// the driver maps. A process of another user could make it smaller, unless it is sealed.
func (c *Conn) checkSemaphore(x core.ExternalSemaphore) error {
	number, err := x.Handle.Number()
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(number), &stat); err != nil {
		return systemError(core.ErrInvalid, "fstat", err, "the descriptor of a semaphore is not open")
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || c.Peer().UID == uint32(os.Geteuid()) {
		return nil
	}
	seals, err := unix.FcntlInt(number, unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return core.Errorf(core.ErrInvalid, "share", "fcntl", "a semaphore is a file that lacks F_SEAL_SHRINK, and the peer is a process of another user")
	}
	return checkPages(int(number))
}

// seal makes memory that is to be passed safe for checkFile. A memfd for a receiver that may only
// read gets a descriptor for reading, and if forAll receivers may only read, a seal against other
// mappings for writing. seal reports whether the descriptor is for reading only. On failure the
// caller closes m.
func seal(m *core.ExternalMemory, readOnly, forAll bool) (sealed bool, err error) {
	if !m.Handle.Type().IsFD() {
		return false, nil
	}
	number, err := m.Handle.Number()
	if err != nil {
		return false, err
	}
	seals, failed := unix.FcntlInt(number, unix.F_GET_SEALS, 0)
	if failed == nil {
		want, memfd := unix.F_SEAL_SHRINK, m.Handle.Type() == core.HandleMemFD
		if memfd {
			want |= unix.F_SEAL_GROW
		}
		if memfd && forAll {
			want |= unix.F_SEAL_FUTURE_WRITE
		}
		if memfd && !readOnly && seals&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0 {
			return false, core.Errorf(core.ErrReadOnly, "share", "fcntl", "the memory was passed before by a connection that makes all tensors read-only, which sealed it against writing")
		}
		if seals&want != want {
			_, _ = unix.FcntlInt(number, unix.F_ADD_SEALS, want) // checkSealed says whether it is sealed
			seals, failed = unix.FcntlInt(number, unix.F_GET_SEALS, 0)
		}
		if memfd && readOnly {
			if err := reopen(m); err != nil {
				return false, err
			}
			sealed = true
		}
	}
	fd, size, err := fileOf(*m)
	if fd < 0 || err != nil {
		return sealed, err
	}
	return sealed, checkSealed(*m, fd, size, seals, failed)
}

// reopen replaces the descriptor of a memfd by one for reading only.
func reopen(m *core.ExternalMemory) error {
	number, err := m.Handle.Number()
	if err != nil {
		return err
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", number), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return systemError(core.ErrNotSupported, "open", err, "a memfd cannot be opened for reading only: mount /proc")
	}
	h, err := privateCore.NewHandle(m.Handle.Type(), uintptr(fd))
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	_ = m.Handle.Close()
	m.Handle = h
	return nil
}

// isReadOnly reports whether a memory is a memfd that can only be read. seals are its seals.
func isReadOnly(m core.ExternalMemory, seals int) bool {
	number, err := m.Handle.Number()
	if err != nil || m.Handle.Type() != core.HandleMemFD {
		return false
	}
	flags, err := unix.FcntlInt(number, unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDONLY || seals&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0
}

// listen makes the socket. A socket at path that nobody listens to is replaced.
func listen(path string, mode fs.FileMode) (*net.UnixListener, os.FileInfo, error) {
	const call = "Listen"
	l, err := bind(path, mode)
	if errors.Is(err, unix.EADDRINUSE) {
		l, err = replaceStale(path, mode)
	}
	var typed *core.Error
	if errors.As(err, &typed) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, systemError(core.ErrInvalid, call, err, "no socket at %s: %s", path, listenHint(path, err))
	}
	l.SetUnlinkOnClose(false)      // another process may have replaced it by then
	err = os.Chmod(path, mode)     // bind has applied the umask
	info, failed := os.Lstat(path) // to recognize it
	if err = errors.Join(err, failed); err != nil {
		_ = l.Close()
		_ = os.Remove(path)
		return nil, nil, systemError(core.ErrInvalid, call, err, "the mode of the socket at %s", path)
	}
	return l, info, nil
}

// maxPath is the length of the longest path that an address of the system holds.
const maxPath = len(unix.RawSockaddrUnix{}.Path) - 1

// listenHint says what to do about err, with which Listen has failed.
func listenHint(path string, err error) string {
	switch {
	case len(path) > maxPath:
		return fmt.Sprintf("the path has %d bytes, and may have %d: choose a shorter one", len(path), maxPath)
	case errors.Is(err, fs.ErrPermission):
		return "the permissions of the folder do not let this user make a socket there: choose another folder"
	case errors.Is(err, fs.ErrNotExist):
		return "make its folder first"
	default:
		return "choose another path"
	}
}

// dialHint says what to do about err, with which Dial has failed.
func dialHint(path string, err error) string {
	switch {
	case len(path) > maxPath:
		return fmt.Sprintf("the path has %d bytes, and may have %d: choose a shorter one", len(path), maxPath)
	case errors.Is(err, fs.ErrPermission):
		return "the permissions of the socket or of its folder do not let this user connect; the process that listens sets them"
	case errors.Is(err, unix.EPROTOTYPE):
		return "a program that does not use package share listens there, at a socket of another type: choose another path"
	case errors.Is(err, unix.ECONNREFUSED):
		if info, failed := os.Stat(path); failed == nil && info.Mode().Type() != fs.ModeSocket {
			return "it is not a socket: use the path of the process that listens"
		}
		return "the process that listened there has ended: start it again"
	default:
		return "start the process that listens there"
	}
}

// bind makes a socket that never has more permissions than mode.
func bind(path string, mode fs.FileMode) (*net.UnixListener, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := unix.Fchmod(fd, uint32(mode.Perm())); err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, 128); err != nil {
		_ = os.Remove(path)
		return nil, err
	}
	l, err := net.FileListener(f)
	if err != nil {
		_ = os.Remove(path)
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// replaceStale replaces a socket that refuses connections. Of two processes that find the same
// one, only the one that locks its folder replaces it.
func replaceStale(path string, mode fs.FileMode) (*net.UnixListener, error) {
	const call = "Listen"
	folder, err := os.Open(filepath.Dir(path))
	if err == nil {
		defer folder.Close()
		err = unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return nil, systemError(core.ErrExists, call, err, "%s exists, and its folder cannot be locked to replace it: try again, or choose another path", path)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, systemError(core.ErrInvalid, call, err, "no socket at %s", path)
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return nil, core.Errorf(core.ErrExists, "share", call, "%s exists and is not a socket: choose another path, or remove it", path)
	}
	c, err := dial(context.Background(), path) // ends soon
	if err == nil {
		_ = c.Close()
		return nil, core.Errorf(core.ErrExists, "share", call, "another process listens at %s: choose another path", path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return nil, systemError(core.ErrExists, call, err, "%s exists, and it is not known whether a process listens there: choose another path, or remove it", path)
	}
	if err := os.Remove(path); err != nil {
		return nil, systemError(core.ErrInvalid, call, err, "the stale socket %s cannot be removed", path)
	}
	return bind(path, mode)
}

// isBroken reports whether a socket failed because the process at its other end has ended.
func isBroken(err error) bool {
	return errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.ENOTCONN)
}

// isFull reports whether a message was not sent because memory is short, or too many descriptors
// are on their way.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ETOOMANYREFS)
}
