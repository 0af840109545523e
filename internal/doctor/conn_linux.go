package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
	"github.com/dlx-go/dlx/share"
)

// magic begins each message, before a JSON object. A peer of package share begins its messages
// with shareMagic.
const (
	magic      = "DLXDOCTOR1\n"
	shareMagic = "DLXS"
	maxMessage = 64 << 10
)

// message is a question, or the answer to one, which has its number. Each end of a connection
// first sends a message with Facts.
type message struct {
	ID uint32 `json:"id"`
	Do string `json:"do,omitempty"` // what is asked; see answers

	// Of a question.
	Seed    uint64 `json:"seed,omitempty"` // of the pattern
	Name    string `json:"name,omitempty"`
	Number  int    `json:"number,omitempty"`
	Address uint64 `json:"address,omitempty"` // of an answer, too
	Size    int    `json:"size,omitempty"`
	Device  string `json:"device,omitempty"`
	Data    []byte `json:"data,omitempty"`

	// Of an answer.
	Failed  *failure           `json:"failed,omitempty"`
	Facts   *Facts             `json:"facts,omitempty"`
	Devices []share.PeerDevice `json:"devices,omitempty"`
}

// failure is an error of the other process.
type failure struct {
	Call string `json:"call"`
	Code int64  `json:"code"`
	Text string `json:"text"`
	// Self is the error number of the same call on the process itself, which no rule about two processes can
	// refuse; 0 if that works, or was not tried.
	Self int64 `json:"self,omitempty"`
}

// Error returns the text.
func (f *failure) Error() string { return f.Text }

var _ error = (*failure)(nil)

// Unwrap returns the error number.
func (f *failure) Unwrap() error { return unix.Errno(f.Code) }

// newFailure describes an error.
func newFailure(err error) *failure {
	var known *failure
	if errors.As(err, &known) {
		return known
	}
	f := &failure{Text: err.Error()}
	var typed *core.Error
	var system *os.SyscallError
	switch {
	case errors.As(err, &typed):
		f.Call, f.Code = typed.Call, typed.Code
	case errors.As(err, &system):
		f.Call = system.Syscall
	}
	var number unix.Errno
	if f.Code == 0 && errors.As(err, &number) {
		f.Code = int64(number)
	}
	if len(f.Text) > 2000 {
		f.Text = f.Text[:2000]
	}
	return f
}

// conn is one end of a connection. One goroutine uses it.
type conn struct {
	socket *net.UnixConn
	oob    []byte
	buffer []byte
	peer   Credentials // of the first message
}

// newConn makes a connection. It owns socket on success only.
func newConn(socket *net.UnixConn) (*conn, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if kind, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
			failed = core.Errorf(core.ErrInvalid, "doctor", "connect", "the socket is not of the type SOCK_SEQPACKET")
			return
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return &conn{socket: socket, oob: make([]byte, unix.CmsgSpace(4*8)+unix.CmsgSpace(unix.SizeofUcred)), buffer: make([]byte, maxMessage)}, nil
}

// identify asks the system for the credentials of the other process. It comes after first, since
// package share does not expect credentials.
func (c *conn) identify() error {
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1))
	})
	return errors.Join(err, failed)
}

// bound ends what waits on the socket when ctx ends or after a time. The caller calls the result
// when that is over.
func (c *conn) bound(ctx context.Context, limit time.Duration) func() {
	end := time.Time{}
	if limit > 0 {
		end = time.Now().Add(limit)
	}
	_ = c.socket.SetDeadline(end)
	stop := context.AfterFunc(ctx, func() { _ = c.socket.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// send sends a message, with a descriptor unless fd is -1, and with the credentials of this
// process.
func (c *conn) send(m *message, fd int) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	b = append([]byte(magic), b...)
	if len(b) > maxMessage {
		return core.Errorf(core.ErrInvalid, "doctor", "send", "a message has %d bytes; %d are possible", len(b), maxMessage)
	}
	oob := unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())})
	if fd >= 0 {
		oob = append(oob, unix.UnixRights(fd)...)
	}
	_, _, err = c.socket.WriteMsgUnix(b, oob, nil)
	return err
}

// receive returns the next message and its descriptor, -1 if it has none. The caller owns the
// descriptor. The error is io.EOF if the other process has ended the connection.
func (c *conn) receive() (m message, fd int, err error) {
	n, oobn, flags, _, err := c.socket.ReadMsgUnix(c.buffer, c.oob)
	var fds []int
	defer func() {
		if len(fds) > 0 && fd < 0 {
			for _, f := range fds {
				_ = unix.Close(f)
			}
		}
	}()
	list, parsed := unix.ParseSocketControlMessage(c.oob[:oobn])
	for i := range list {
		if more, err := unix.ParseUnixRights(&list[i]); err == nil {
			fds = append(fds, more...)
		} else if who, err := unix.ParseUnixCredentials(&list[i]); err == nil {
			c.peer = Credentials{int(who.Pid), int(who.Uid), int(who.Gid)}
		}
	}
	refuse := func(format string, args ...any) (message, int, error) {
		return message{}, -1, core.Errorf(core.ErrInvalid, "doctor", "receive", format, args...)
	}
	switch {
	case errors.Is(err, unix.ECONNRESET), err == nil && n == 0:
		return message{}, -1, io.EOF
	case err != nil:
		return message{}, -1, err
	case parsed != nil:
		return refuse("what came beside a message cannot be read: %v", parsed)
	case flags&unix.MSG_CTRUNC != 0:
		return message{}, -1, core.Errorf(core.ErrOutOfMemory, "doctor", "receive", "a descriptor could not be received: raise the limit of open files (RLIMIT_NOFILE), or look for a security module that refuses the file")
	case flags&unix.MSG_TRUNC != 0, len(fds) > 1:
		return refuse("a message has more than %d bytes or more than one descriptor", maxMessage)
	}
	text, ok := bytes.CutPrefix(c.buffer[:n], []byte(magic))
	if !ok {
		return refuse("the other process does not run dlx doctor --listen, or another version of it")
	}
	if err := strictjson.Unmarshal(text, &m); err != nil {
		return refuse("a message cannot be read: %v", err)
	}
	if len(fds) == 1 {
		return m, fds[0], nil
	}
	return m, -1, nil
}

// first returns how the first message of the other process begins, and leaves it unread.
func (c *conn) first() (string, error) {
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return "", err
	}
	var b [len(magic)]byte
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, _, failed = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR)
	})
	switch err = errors.Join(err, failed); {
	case err == nil && n == 0, errors.Is(err, unix.ECONNRESET):
		return "", io.EOF
	case err != nil:
		return "", err
	}
	return string(b[:n]), nil
}

// greet sends who this process is.
func (c *conn) greet(o Options) error {
	facts := self()
	m := message{Facts: &facts}
	for _, d := range o.Devices {
		m.Devices = append(m.Devices, describe(d))
	}
	return c.send(&m, -1)
}

// met receives who the other process is.
func (c *conn) met() (Facts, []share.PeerDevice, error) {
	if err := c.identify(); err != nil {
		return Facts{}, nil, err
	}
	m, fd, err := c.receive()
	if fd >= 0 {
		_ = unix.Close(fd)
	}
	switch {
	case err != nil:
		return Facts{}, nil, err
	case m.Facts == nil:
		return Facts{}, nil, core.Errorf(core.ErrInvalid, "doctor", "receive", "the first message of the other process does not say who it is")
	}
	m.Facts.PID = c.peer.PID
	return *m.Facts, m.Devices, nil
}

// closeFD closes a descriptor. Nothing is lost if that fails.
func closeFD(fd int) { _ = unix.Close(fd) }
