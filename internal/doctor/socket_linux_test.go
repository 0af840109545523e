package doctor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

// background starts a process, and ends it after the test.
func background(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// dial examines the process at a socket, once there is one.
func dial(t *testing.T, path string, o Options) Result {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		r, err := Dial(t.Context(), path, o)
		if err == nil {
			return r
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Two processes that share only the folder of a socket, as two containers do.
func TestDialAnotherContainer(t *testing.T) {
	p := process{flags: syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, confine: "shm", driver: "a"}
	p.skipUnless(t)
	path := filepath.Join(t.TempDir(), "socket")
	background(t, p.command("listen "+path)(t.Context()))
	devices, closeAll := open("a")
	defer closeAll()
	for range 2 { // it serves one process after the other
		r := dial(t, path, Options{Devices: devices})
		if os.Getuid() == 0 {
			checkWays(t, r, expected{
				"POSIX shared memory":              "different file systems at /dev/shm",
				"System V shared memory":           "different IPC namespaces",
				"pidfd_getfd by the other process": "no number in the PID namespace", "process_vm_readv by the other process": "no number in the PID namespace",
			})
		}
		if f := of(t, r, "memory as opaque_fd"); f.Verdict != Works {
			t.Errorf("%+v", f)
		}
		if r.Mode != "doctor" || r.Apart() == "" || !r.HostShared {
			t.Errorf("%+v", r)
		}
	}
}

// A program that uses package share gets no tensor, and its devices are compared.
func TestDialShare(t *testing.T) {
	devices, closeAll := open("a")
	defer closeAll()
	theirs, closeTheirs := open("b")
	defer closeTheirs()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := share.Listen(path, share.Options{Devices: theirs})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		c, err := l.Accept(context.Background())
		if err == nil {
			defer c.Close()
			_, _, err = c.Receive(context.Background(), nil)
		}
		ended <- err
	}()
	r, err := Dial(t.Context(), path, Options{Devices: devices})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("the program saw %v, and not the end of a connection", err)
	}
	for way, want := range map[string]Verdict{
		"memfd over a socket": Possible, "System V shared memory": Possible, "pidfd_getfd by this process": Possible,
		"process_vm_readv by this process": Possible, "memory as mem_fd": Possible, "memory as opaque_fd": Fails,
	} {
		if f := of(t, r, way); f.Verdict != want || f.Why == "" {
			t.Errorf("%+v; want %s", f, want)
		}
	}
	if r.Mode != "share" || !r.HostShared || r.Other.PID != os.Getpid() {
		t.Errorf("%+v", r)
	}
}

// A process that does not answer, that is not there, or that speaks otherwise.
func TestDialFails(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "socket")
	if _, err := Dial(t.Context(), path, Options{}); !errors.Is(err, core.ErrClosed) || !strings.Contains(err.Error(), "dlx doctor --listen") {
		t.Errorf("nobody listens: %v", err)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Dial(t.Context(), path, Options{Timeout: time.Millisecond}); !errors.Is(err, core.ErrClosed) || !strings.Contains(err.Error(), "did not answer within 1ms") {
		t.Errorf("nobody accepts: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ctx, path, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	for _, says := range []string{"hello", magic + "{", magic + `{"id":0}`, magic + `{"id":0,"facts":{},"devices":[{"exports":["x"]}]}`, ""} {
		mine, theirs := pair(t)
		_, _ = theirs.Write([]byte(says))
		s := &session{}
		if _, err := s.dialed(t.Context(), mine, "it"); err == nil || strings.Contains(err.Error(), "panic") {
			t.Errorf("%q: %v", says, err)
		}
		if s.conn != nil {
			t.Errorf("%q: a connection is open", says)
		}
	}
}

// pair returns both ends of a connection, which the test closes.
func pair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
		t.Cleanup(func() { _ = c.Close() })
	}
	return ends[0], ends[1]
}

// asked sends messages to a process that answers, with a descriptor unless fd is -1, and returns
// its answers.
func asked(t testing.TB, fd int, messages ...string) []message {
	t.Helper()
	devices, closeAll := open("a")
	defer closeAll()
	mine, theirs := pair(t)
	done := make(chan error, 1)
	go func() {
		_, err := answer(context.Background(), theirs, Options{Devices: devices})
		done <- err
	}()
	c, err := newConn(mine)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.greet(Options{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.met(); err != nil {
		t.Fatal(err)
	}
	var answers []message
	for _, m := range messages {
		var rights []byte
		if fd >= 0 {
			rights = unix.UnixRights(fd)
		}
		if _, _, err := mine.WriteMsgUnix([]byte(magic+m), rights, nil); err != nil {
			break // a message before has ended the connection
		}
		a, came, err := c.receive()
		if came >= 0 {
			t.Error("a descriptor came back")
			_ = unix.Close(came)
		}
		if err != nil {
			break
		}
		answers = append(answers, a)
	}
	_ = mine.Close()
	<-done
	return answers
}

// Whatever a process asks, another one opens nothing that is not of dlx doctor, and goes on.
func TestHostileQuestions(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	text := bytes.Repeat([]byte("secret"), 1000)
	if err := os.WriteFile(secret, text, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(secret, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	small, err := unix.MemfdCreate("small", unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(small)
	if _, err := unix.FcntlInt(uintptr(small), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	questions := []string{
		`{"id":1,"do":"shm","name":"../../` + secret + `"}`, `{"id":1,"do":"shm","name":"dlx-doctor-0123456789abcdef"}`, `{"id":1,"do":"shm"}`,
		`{"id":1,"do":"sysv","number":-1}`, `{"id":1,"do":"get","number":-1}`, `{"id":1,"do":"read","address":1}`, `{"id":1,"do":"check"}`,
		`{"id":1,"do":"import","device":"cuda:0"}`, `{"id":1,"do":"import","device":"ext_dev:0","data":"AAAA"}`, `{"id":1,"do":"import","device":"cpu"}`,
		`{"id":1,"do":"signal","device":"cpu"}`, `{"id":1,"do":"event","device":"cpu"}`, `{"id":1,"do":"nothing"}`, `{"id":1}`,
		`{"id":1,"do":"pipe"}`, `{"id":1,"do":"map"}`,
	}
	for name, fd := range map[string]int{"no descriptor": -1, "a file": int(file.Fd()), "memory that is too small": small} {
		answers := asked(t, fd, questions...)
		for i, a := range answers {
			if a.Failed == nil {
				t.Errorf("%s: %s succeeds", name, questions[i])
			}
		}
		if len(answers) != len(questions) {
			t.Errorf("%s: %d of %d questions were answered", name, len(answers), len(questions))
		}
	}
	if now, err := os.ReadFile(secret); err != nil || !bytes.Equal(now, text) {
		t.Errorf("the file has changed, error %v", err)
	}
}

func FuzzQuestions(f *testing.F) {
	for _, seed := range []string{`{"id":1,"do":"offer","seed":5}`, `{"id":1,"do":"import","device":"ext_dev:0","data":"RExYSA=="}`, `{"id":1,"facts":{}}`, `[`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, m string) { asked(t, -1, m, `{"id":2,"do":"check"}`) })
}

func TestListenFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]error{path: core.ErrExists, "": core.ErrInvalid, "@x": core.ErrInvalid, path + "/x": core.ErrInvalid} {
		if err := Listen(t.Context(), p, 0o600, Options{}, nil); !errors.Is(err, want) {
			t.Errorf("Listen(%q): %v, want %v", p, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	path = filepath.Join(t.TempDir(), "socket")
	stale, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	if err := Listen(ctx, path, 0o600, Options{}, nil); !errors.Is(err, core.ErrExists) {
		t.Errorf("a path where another process listens: %v", err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close() // its socket is left, and is replaced
	ended := make(chan error, 1)
	went := make(chan error, 1)
	go func() { ended <- Listen(ctx, path, 0o640, Options{}, func(_ Credentials, err error) { went <- err }) }()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if c, err := net.Dial("unixpacket", path); err == nil {
			_ = c.Close()
			break
		}
	}
	if err := <-went; !errors.Is(err, core.ErrClosed) {
		t.Errorf("a process that leaves at once: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, error %v", info, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// A process that is killed meanwhile ends the examination, and not the process that asks.
func TestDialAProcessThatIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	background(t, process{driver: "a crashes"}.command("listen "+path)(t.Context()))
	devices, closeAll := open("a")
	defer closeAll()
	r := dial(t, path, Options{Devices: []core.Device{devices[1], devices[0]}})
	if f := of(t, r, "memory as opaque_fd"); f.Verdict != Fails || !strings.Contains(f.Why, "has ended during this") {
		t.Errorf("%+v", f)
	}
	if f := of(t, r, "memory as mem_fd"); f.Verdict != NotTried || !strings.Contains(f.Why, "has ended") {
		t.Errorf("%+v", f)
	}
	if !r.HostShared { // memfd has worked before
		t.Errorf("%+v", r)
	}
}
