package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// server answers the questions of one process.
type server struct {
	conn    *conn
	options Options
	asker   Credentials
	offered []byte // memory of the latest offer; nil before
	fd      int    // its descriptor
}

// Serve answers questions at a socket that the program has inherited, until the other end is
// closed. [Pair] asks there. Serve owns the descriptor.
func Serve(ctx context.Context, fd int, o Options) error {
	f := os.NewFile(uintptr(fd), "socket")
	c, err := net.FileConn(f)
	_ = f.Close()
	if err != nil {
		return core.Errorf(core.ErrInvalid, "doctor", "Serve", "descriptor %d is not a socket: %v", fd, err)
	}
	socket, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return core.Errorf(core.ErrInvalid, "doctor", "Serve", "descriptor %d is not a Unix socket", fd)
	}
	_, err = answer(ctx, socket, o)
	return err
}

// idle is for how many times the limit of an answer a process may ask nothing. After that, the
// next process is served.
const idle = 12

// answer answers the questions that come over a socket, which it owns.
func answer(ctx context.Context, socket *net.UnixConn, o Options) (Credentials, error) {
	defer socket.Close()
	c, err := newConn(socket)
	if err != nil {
		return Credentials{}, err
	}
	s := &server{conn: c, options: o}
	defer s.forget()
	stop := c.bound(ctx, idle*o.timeout())
	defer func() { stop() }()
	err = c.greet(o)
	if err == nil {
		_, _, err = c.met()
	}
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) {
			return c.peer, core.Errorf(core.ErrClosed, "doctor", "Serve", "the other process has left without a question")
		}
		return c.peer, err
	}
	s.asker = c.peer
	for {
		stop()
		stop = c.bound(ctx, idle*o.timeout())
		m, fd, err := c.receive()
		if ctx.Err() != nil {
			if fd >= 0 {
				_ = unix.Close(fd)
			}
			return c.peer, ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			return c.peer, nil
		}
		if err != nil {
			return c.peer, err
		}
		a := message{ID: m.ID}
		err = s.handle(ctx, &m, fd, &a)
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		if err != nil {
			a.Failed = newFailure(err)
		}
		if err := c.send(&a, -1); err != nil {
			if errors.Is(err, unix.EPIPE) {
				return c.peer, nil
			}
			return c.peer, err
		}
	}
}

// forget frees what was offered.
func (s *server) forget() {
	if s.offered != nil {
		_ = unix.Munmap(s.offered)
		_ = unix.Close(s.fd)
		s.offered = nil
	}
}

// handle answers one question. It does not own fd.
func (s *server) handle(ctx context.Context, m *message, fd int, a *message) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.timeout())
	defer cancel()
	if needsFD := m.Do == "pipe" || m.Do == "map"; needsFD && fd < 0 {
		return core.Errorf(core.ErrInvalid, "doctor", m.Do, "the descriptor did not arrive")
	}
	if looks := m.Do == "read" || m.Do == "get"; looks && s.asker.PID <= 0 {
		return noNumber(m.Do)
	}
	switch m.Do {
	case "pipe": // read the pattern from a pipe
		return readPipe(fd, m.Seed)
	case "map": // map memory that came as a descriptor
		return exchangeFile(fd, m.Seed)
	case "shm": // map memory by a name in /dev/shm
		return openShm(m.Name, m.Seed)
	case "sysv": // attach memory by a number
		return attachSysV(m.Number, m.Seed)
	case "read": // read memory of the process that asks
		b := make([]byte, size)
		if err := readProcess(s.asker.PID, m.Address, b); err != nil {
			return err
		}
		return same(b, pattern(m.Seed))
	case "get": // duplicate a descriptor of the process that asks, and map its memory
		return exchangeGot(s.asker.PID, m.Number, m.Seed)
	case "offer": // make memory that the process that asks will read, and a descriptor that it will duplicate
		return s.offer(m.Seed, a)
	case "check": // whether the process that asks has written the reply
		return s.check(m.Seed)
	case "import":
		return s.importMemory(ctx, m, fd)
	case "signal":
		return s.signal(ctx, m, fd)
	case "event":
		return s.waitEvent(ctx, m, fd)
	}
	return core.Errorf(core.ErrNotSupported, "doctor", "Serve", "this version does not know %q", m.Do)
}

// readPipe reads the pattern from a pipe. It does not wait for it.
func readPipe(fd int, seed uint64) error {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if s.Mode&unix.S_IFMT != unix.S_IFIFO {
		return core.Errorf(core.ErrInvalid, "doctor", "pipe", "the descriptor is not a pipe")
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	b := make([]byte, size)
	n, err := unix.Read(fd, b)
	if err != nil {
		return os.NewSyscallError("read", err)
	}
	return same(b[:n], pattern(seed))
}

// shmName is what the names in /dev/shm that this package makes look like. A process that asks
// cannot make another one open anything else.
var shmName = regexp.MustCompile(`^dlx-doctor-[0-9a-f]{16}$`)

// openShm opens memory of the other process by its name.
func openShm(name string, seed uint64) error {
	if !shmName.MatchString(name) {
		return core.Errorf(core.ErrInvalid, "doctor", "shm", "%q is not a name of dlx doctor", name)
	}
	fd, err := unix.Open(filepath.Join("/dev/shm", name), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("shm_open", err)
	}
	defer closeFD(fd)
	return exchangeMapped(fd, seed)
}

// attachSysV attaches memory of System V by its number. In another IPC namespace the number may
// be that of other memory: that is only read.
func attachSysV(id int, seed uint64) error {
	b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return os.NewSyscallError("shmat", err)
	}
	var differ error
	if len(b) < size {
		differ = fmt.Errorf("the number %d is that of other memory, of %d bytes", id, len(b))
	} else if err := touch(b, func() { differ = same(b[:size], pattern(seed)) }); err != nil {
		differ = err
	}
	_ = unix.SysvShmDetach(b)
	if differ != nil {
		return differ
	}
	if b, err = unix.SysvShmAttach(id, 0, 0); err != nil {
		return os.NewSyscallError("shmat", err)
	}
	defer func() { _ = unix.SysvShmDetach(b) }()
	return exchanged(b[:size], seed)
}

// exchangeGot duplicates a descriptor of another process, and maps its memory.
func exchangeGot(pid, number int, seed uint64) error {
	fd, err := getFD(pid, number)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return exchangeFile(fd, seed)
}

// exchangeFile maps memory that came as a descriptor. A file that is no memfd is refused: its file
// system could make this process wait.
func exchangeFile(fd int, seed uint64) error {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if s.Mode&unix.S_IFMT == unix.S_IFREG {
		if seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || seals&unix.F_SEAL_SHRINK == 0 {
			return core.Errorf(core.ErrInvalid, "doctor", "map", "the descriptor is a file, and not a memfd that cannot become smaller")
		}
	}
	return exchangeMapped(fd, seed)
}

// exchangeMapped maps memory, compares it with the pattern, and writes the reply.
func exchangeMapped(fd int, seed uint64) error {
	b, err := mapped(fd)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(b) }()
	return exchanged(b, seed)
}

// offer makes memory with the pattern of seed, and says where it is.
func (s *server) offer(seed uint64, a *message) error {
	s.forget()
	fd, b, err := newMemFD(seed)
	if err != nil {
		return err
	}
	s.offered, s.fd = b, fd
	a.Number, a.Address = fd, addressOf(b)
	return nil
}

// check compares what was offered with the reply.
func (s *server) check(seed uint64) error {
	if s.offered == nil {
		return core.Errorf(core.ErrInvalid, "doctor", "check", "nothing was offered")
	}
	return answered(s.offered, seed)
}

// Listen makes a socket at path with the given permissions, and answers the questions of one
// process after the other that calls [Dial], until ctx ends; it then returns nil. It removes the
// socket at the end. It calls done, unless that is nil, after each process.
//
// Listen replaces a socket that a dead process has left at path. It returns core.ErrInvalid if path cannot be used, and
// core.ErrExists if another process listens there or something else is there.
func Listen(ctx context.Context, path string, mode fs.FileMode, o Options, done func(Credentials, error)) error {
	l, err := listen(path, mode)
	if err != nil {
		return err
	}
	defer l.Close() // removes the socket
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		socket, err := l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				_ = socket.Close()
			}
			return nil
		}
		if err != nil {
			return core.Errorf(core.ErrClosed, "doctor", "Listen", "no connection at %s: %v", path, err)
		}
		who, err := answer(ctx, socket, o)
		if done != nil && ctx.Err() == nil {
			done(who, err)
		}
	}
}

// listen makes a socket that never has more permissions than mode.
func listen(path string, mode fs.FileMode) (*net.UnixListener, error) {
	const call = "Listen"
	if path == "" || path[0] == '@' || path[0] == 0 {
		return nil, core.Errorf(core.ErrInvalid, "doctor", call, "%q is not the path of a file", path)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, core.Errorf(core.ErrOutOfMemory, "doctor", call, "no socket: %v", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err = unix.Fchmod(fd, uint32(mode.Perm())); err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if errors.Is(err, unix.EADDRINUSE) && removeStale(path) {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, core.Errorf(core.ErrExists, "doctor", call, "%s exists, and is no socket, or another process listens there: choose another path", path)
	}
	if err != nil {
		return nil, core.Errorf(core.ErrInvalid, "doctor", call, "no socket at %s (a path has at most 107 bytes): %v", path, err)
	}
	l, err := listening(fd, f, path, mode)
	if err != nil {
		_ = os.Remove(path)
		return nil, core.Errorf(core.ErrInvalid, "doctor", call, "no socket at %s: %v", path, err)
	}
	return l, nil
}

// removeStale removes a socket that a process has left which did not end well, as in a container that is started
// again. It reports whether it did. It locks the folder, so that no two processes remove each other's socket.
func removeStale(path string) bool {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return false
	}
	defer folder.Close()
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSocket == 0 {
		return false
	}
	c, err := privateShare.Dial(context.Background(), path) // ends soon
	if err == nil {
		_ = c.Close()
		return false
	}
	return errors.Is(err, unix.ECONNREFUSED) && os.Remove(path) == nil
}

// listening makes a listener of a socket at path. The caller still owns f.
func listening(fd int, f *os.File, path string, mode fs.FileMode) (*net.UnixListener, error) {
	if err := unix.Listen(fd, 16); err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode.Perm()); err != nil { // bind has applied the umask
		return nil, err
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	unixListener := l.(*net.UnixListener)
	unixListener.SetUnlinkOnClose(true)
	return unixListener, nil
}
