package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/private"
	"github.com/dlx-go/dlx/share"
)

// session asks another process.
type session struct {
	options Options
	conn    *conn // nil if the other process does not answer any more
	mine    Facts
	theirs  Facts
	devices []share.PeerDevice // of the other process
	next    uint32
	lost    error // why conn is nil
	// again starts another process instead of one that does not answer any more; nil if that is not
	// possible. end ends the process, and says how it has ended. It waits a while for the end unless hurry is set.
	again func(context.Context) error
	end   func(hurry bool) string
	found []Finding
}

// startLimit is how long a process may take to start and to open its devices.
const startLimit = 30 * time.Second

// endLimit is how long it may take to close its devices and to end.
const endLimit = 10 * time.Second

// lostError is the error of a question that the other process did not answer.
type lostError struct{ why, remedy string }

var _ error = (*lostError)(nil)

func (e *lostError) Error() string { return e.why }

// meet begins a session over a socket, which the session owns on success.
func (s *session) meet(ctx context.Context, socket *net.UnixConn) error {
	c, err := newConn(socket)
	if err != nil {
		return err
	}
	return s.meetAt(ctx, c)
}

func (s *session) meetAt(ctx context.Context, c *conn) error {
	limit := s.options.timeout()
	if s.again != nil {
		limit += startLimit
	}
	defer c.bound(ctx, limit)()
	err := c.greet(s.options)
	if err == nil {
		s.theirs, s.devices, err = c.met()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return core.Errorf(core.ErrClosed, "doctor", "connect", "the other process did not answer within %v%s", limit, s.state())
	case errors.Is(err, io.EOF), errors.Is(err, unix.EPIPE):
		return core.Errorf(core.ErrClosed, "doctor", "connect", "the other process has ended the connection")
	case err != nil:
		return err
	}
	s.conn, s.lost = c, nil
	return nil
}

// state says in which state the other process is, if the system shows it.
func (s *session) state() string {
	pid := s.theirs.PID
	if pid <= 0 {
		return ""
	}
	if f, err := other(pid); err == nil && f.State != "" {
		return ": its state is " + f.State
	}
	return ""
}

// ask asks a question, with a descriptor unless fd is -1, and returns the answer. The caller
// still owns fd. The error is that of ctx, a *lostError, or a *failure of the other process.
func (s *session) ask(ctx context.Context, m message, fd int) (message, error) {
	if s.conn == nil {
		return message{}, s.lost
	}
	s.next++
	m.ID = s.next
	defer s.conn.bound(ctx, s.options.timeout())()
	a, err := s.conn.ask(&m, fd)
	if err == nil && a.Failed != nil {
		return a, a.Failed
	}
	if err == nil {
		return a, nil
	}
	if ctx.Err() != nil {
		_ = s.lose("the examination was ended", "", true) // the answer may still come
		return message{}, ctx.Err()
	}
	var number unix.Errno
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return message{}, s.lose(fmt.Sprintf("the other process did not answer within %v%s", s.options.timeout(), s.state()), "if it is stopped, let it go on; if it works, give it more time with --timeout", true)
	case errors.Is(err, io.EOF), errors.Is(err, unix.EPIPE):
		return message{}, s.lose("the other process has ended during this", "look for a crash of a driver in its log", false)
	case errors.As(err, &number) && (number == unix.ETOOMANYREFS || number == unix.EPERM || number == unix.EACCES || number == unix.EBADF): // this descriptor, and not the socket
		return message{}, newFailure(os.NewSyscallError("sendmsg", number))
	}
	return message{}, s.lose(err.Error(), "", true)
}

// ask sends a question and receives the answer.
func (c *conn) ask(m *message, fd int) (message, error) {
	if err := c.send(m, fd); err != nil {
		return message{}, err
	}
	a, came, err := c.receive()
	if came >= 0 {
		closeFD(came) // answers have none
	}
	if err == nil && a.ID != m.ID {
		err = core.Errorf(core.ErrInvalid, "doctor", "receive", "question %d was answered as number %d", m.ID, a.ID)
	}
	return a, err
}

// lose ends a conversation, and the process if it is of this session.
func (s *session) lose(why, remedy string, hurry bool) error {
	_ = s.conn.socket.Close()
	s.conn = nil
	if s.end != nil {
		if how := s.end(hurry); how != "" {
			why += " (" + how + ")"
		}
	}
	s.lost = &lostError{why, remedy}
	return s.lost
}

// revive starts another process where the one before was lost. It reports whether a question can
// be asked.
func (s *session) revive(ctx context.Context) bool {
	if s.conn != nil {
		return true
	}
	if s.again == nil {
		return false
	}
	if err := s.again(ctx); err != nil {
		s.lost = &lostError{why: "no other process could be started: " + err.Error()}
		s.again = nil
		return false
	}
	return true
}

// close ends the session.
func (s *session) close() {
	if s.conn != nil {
		_ = s.conn.socket.Close()
		s.conn = nil
	}
	if s.end != nil {
		s.end(false)
	}
}

// try tries a way, and notes what was found. explain says why the way fails; it may be nil.
func (s *session) try(ctx context.Context, f Finding, way func() error, explain func(*failure) cause) {
	if ctx.Err() != nil {
		return
	}
	if !s.revive(ctx) {
		f.Verdict, f.Why = NotTried, s.lost.Error()
		s.found = append(s.found, f)
		return
	}
	err := way()
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the device of this process did not finish its work within %v: %w", s.options.timeout(), err)
	}
	f.Verdict = Works
	if err != nil {
		f.fail(err, explain)
	}
	s.found = append(s.found, f)
}

// fail notes why a way fails.
func (f *Finding) fail(err error, explain func(*failure) cause) {
	f.Verdict = Fails
	var lost *lostError
	if errors.As(err, &lost) {
		f.Why, f.Remedy = lost.why, lost.remedy
		return
	}
	x := newFailure(err)
	f.Call, f.Code = x.Call, x.Code
	f.Why = x.Text
	if explain == nil {
		return
	}
	c := explain(x)
	if c.why != "" {
		f.Why = c.why
		if text := numberText(x); text != "" {
			f.Why += " (" + text + ")"
		}
	}
	f.Remedy, f.Probably = c.remedy, c.probably
}

// numberText returns what the system said, such as "pidfd_getfd: operation not permitted".
func numberText(x *failure) string {
	if x.Code == 0 || x.Call == "" {
		return ""
	}
	return x.Call + ": " + unix.Errno(x.Code).Error()
}

// Pair examines the ways between this process and one that it starts by command, in which the
// descriptor 3 is a socket for [Serve]. If a driver ends that process, Pair starts another one for
// the ways that are left. It waits for the processes. The command must not set ExtraFiles.
//
// Pair returns ctx's error, core.ErrClosed if the process does not answer at first, and errors of
// starting it. What does not work later is in the result.
func Pair(ctx context.Context, command func(context.Context) *exec.Cmd, o Options) (Result, error) {
	s := &session{options: o, mine: self()}
	s.again = func(ctx context.Context) error { return s.startChild(ctx, command) }
	if err := s.again(ctx); err != nil {
		return Result{}, err
	}
	defer s.close()
	return s.examine(ctx, "child")
}

// startChild starts the other process.
func (s *session) startChild(ctx context.Context, command func(context.Context) *exec.Cmd) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return core.Errorf(core.ErrOutOfMemory, "doctor", "Pair", "no socket: %v", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "socket")
	defer theirs.Close()
	mine := os.NewFile(uintptr(fds[0]), "socket")
	c, err := net.FileConn(mine)
	_ = mine.Close()
	if err != nil {
		return err
	}
	socket := c.(*net.UnixConn)
	cmd := command(ctx)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.WaitDelay = time.Second // for a grandchild that keeps the output open
	if err := cmd.Start(); err != nil {
		_ = socket.Close()
		return core.Errorf(core.ErrNotSupported, "doctor", "Pair", "the other process cannot be started: %v", err)
	}
	_ = theirs.Close() // so that the end of the process is seen
	done := false
	s.end = func(hurry bool) string {
		if done {
			return ""
		}
		done = true
		if hurry || !exited(cmd.Process.Pid, endLimit) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return "it was killed"
		}
		_ = cmd.Wait()
		return strings.TrimSpace(cmd.ProcessState.String())
	}
	if err := s.meet(ctx, socket); err != nil {
		_ = socket.Close()
		return core.Errorf(core.ErrClosed, "doctor", "Pair", "%v (%s)", err, s.end(false))
	}
	s.theirs.PID = cmd.Process.Pid // as this process sees it, also if /proc does not
	return nil
}

// exited waits a short while for the end of a child whose socket was closed.
func exited(pid int, limit time.Duration) bool {
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != nil || info.Signo != 0 {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// Dial examines the ways between this process and the one that listens at the socket at path. If
// that process runs [Listen], all ways are tried. If it uses package share, Dial connects to it
// and reports what the devices of both permit; the program there sees a connection that ends, and
// no tensor.
//
// Dial returns ctx's error, and core.ErrClosed if nobody listens or answers.
func Dial(ctx context.Context, path string, o Options) (Result, error) {
	socket, err := privateShare.Dial(ctx, path)
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		return Result{}, core.Errorf(core.ErrClosed, "doctor", "Dial", "no connection to %s: start dlx doctor --listen there: %v%s", path, err, hintDial(err))
	}
	s := &session{options: o, mine: self()}
	r, err := s.dialed(ctx, socket, path)
	if err != nil {
		_ = socket.Close()
	}
	return r, err
}

// privateShare connects like share.Dial: it waits a moment for a process that has made its socket, and does not listen yet.
var privateShare = private.Share.(interface {
	Dial(ctx context.Context, path string) (*net.UnixConn, error)
})

// hintDial says what the error of a connection means.
func hintDial(err error) string {
	switch {
	case errors.Is(err, unix.EACCES):
		return "; the permissions of the socket or of a folder do not let this user connect: see --mode"
	case errors.Is(err, unix.EPROTOTYPE):
		return "; it is a socket of another type"
	case errors.Is(err, unix.ECONNREFUSED):
		return "; the process that made the socket has ended, or is in another network namespace than a socket without a file"
	}
	return ""
}

// dialed examines over a connection. On failure the caller closes socket.
func (s *session) dialed(ctx context.Context, socket *net.UnixConn, path string) (Result, error) {
	conn, err := newConn(socket)
	if err != nil {
		return Result{}, err
	}
	stop := conn.bound(ctx, s.options.timeout())
	begins, err := conn.first()
	stop()
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Result{}, core.Errorf(core.ErrClosed, "doctor", "Dial", "the process at %s did not answer within %v: it is stopped, or serves another process", path, s.options.timeout())
	case errors.Is(err, io.EOF):
		return Result{}, core.Errorf(core.ErrClosed, "doctor", "Dial", "the process at %s has ended the connection", path)
	case err != nil:
		return Result{}, err
	}
	if strings.HasPrefix(begins, shareMagic) {
		_ = socket.SetDeadline(time.Time{})
		return s.examineShare(ctx, socket)
	}
	if err := s.meetAt(ctx, conn); err != nil {
		return Result{}, err
	}
	defer s.close()
	return s.examine(ctx, "doctor")
}

// result returns what was found.
func (s *session) result(mode string) Result {
	r := Result{Mode: mode, Timeout: int64(s.options.timeout()), This: s.mine, Other: &s.theirs, Findings: s.found, Devices: s.devices}
	if r.Devices == nil {
		r.Devices = []share.PeerDevice{}
	}
	r.judge()
	return r
}

// examine tries all ways.
func (s *session) examine(ctx context.Context, mode string) (Result, error) {
	s.tryHost(ctx)
	s.tryDevices(ctx)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	return s.result(mode), nil
}
