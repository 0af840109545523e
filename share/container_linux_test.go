package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

const (
	childContainer = "container" // connects to the socket in folderVariable, of which it sees nothing else
	childTight     = "tight"     // receives with few descriptors and little memory

	folderVariable = "DLX_SHARE_FOLDER"
	chrootVariable = "DLX_SHARE_CHROOT"
)

// openHost opens the device of the host in another process.
func openHost() (core.Device, error) { return cpu.New().Open(context.Background(), core.CPU) }

// dialFromContainer is the other process of TestContainers.
func dialFromContainer() error {
	ctx := context.Background()
	d, err := openHost()
	if err != nil {
		return err
	}
	path := filepath.Join(os.Getenv(folderVariable), "socket")
	if os.Getenv(chrootVariable) != "" {
		if err := unix.Chroot(os.Getenv(folderVariable)); err != nil {
			return fmt.Errorf("chroot: %w", err)
		}
		if err := os.Chdir("/"); err != nil {
			return err
		}
		path = "/socket"
	}
	c, err := Dial(ctx, path, of(d))
	if errors.Is(err, fs.ErrPermission) {
		os.Exit(exitPermission)
	}
	if errors.Is(err, io.EOF) {
		os.Exit(exitRefused)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	x, err := core.Empty(ctx, d, core.TypeInt32, []int64{words}, memfd)
	if err != nil {
		return err
	}
	defer x.Close()
	values, err := core.Mutable[int32](x)
	if err != nil {
		return err
	}
	values[7] = 77
	if _, err := c.SendLabeled(ctx, x, fmt.Sprintf("%d %d %d", os.Getpid(), c.Peer().PID, c.Peer().UID)); err != nil {
		return err
	}
	y, r, err := c.Receive(ctx, d)
	if err != nil {
		return err
	}
	defer y.Close()
	if got, err := core.At[int32](y, 3); err != nil || got != 33 || r.BytesCopied != 0 {
		return fmt.Errorf("received %d, %d bytes copied, error %w", got, r.BytesCopied, err)
	}
	return c.WaitReleased(ctx)
}

// The exit codes of the other process of TestContainers where it may not connect.
const (
	exitPermission = 10
	exitRefused    = 11
)

// container is how the other process of a test is started.
type container struct {
	flags uintptr // CLONE_NEWPID and others
	user  uint32  // 0: that of this process
	as    int     // with CLONE_NEWUSER: its number of this user
}

// command returns the process. It skips the test where it cannot be started.
func (p container) command(t *testing.T, role, folder string) *exec.Cmd {
	t.Helper()
	if p.user != 0 {
		if os.Getuid() != 0 {
			t.Skip("only root can start a process of another user")
		}
		// A process that Go starts shares its memory with this one until it runs another program, so that its change of the
		// user changes what others may do with this one.
		t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) })
	}
	build := func() *exec.Cmd {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), childVariable+"="+role, folderVariable+"="+folder,
			"ASAN_OPTIONS=detect_leaks=0:"+os.Getenv("ASAN_OPTIONS")) // the sanitizer looks for leaks by /proc
		if p.flags&syscall.CLONE_NEWNS != 0 {
			cmd.Env = append(cmd.Env, chrootVariable+"=1")
		}
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: p.flags, Pdeathsig: syscall.SIGKILL}
		if p.user != 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: p.user, Gid: p.user}
		}
		if p.flags != 0 && os.Getuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		}
		if cmd.SysProcAttr.Cloneflags&syscall.CLONE_NEWUSER != 0 {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: p.as, HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: p.as, HostID: os.Getgid(), Size: 1}}
		}
		return cmd
	}
	if p.flags != 0 {
		try := build()
		try.Env = append(try.Env, childVariable+"=nothing")
		try.Stderr = nil
		if err := try.Run(); err != nil && try.ProcessState == nil {
			t.Skipf("the system permits no such namespaces here: %v", err)
		}
	}
	return build()
}

// openFolder returns a folder that all users can enter.
func openFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "dlx-share")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Two processes that share only the folder of a socket use the same memory, in whatever
// namespaces and as whatever users they are.
func TestContainers(t *testing.T) {
	const all = syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET
	me := uint32(os.Getuid())
	for name, c := range map[string]struct {
		container
		mode fs.FileMode
		// seen is the user that the other process sees here, and uid the one of it that this process sees.
		seen, uid uint32
		sees      bool // the other process sees the number of this one
	}{
		"same":                   {container{}, 0, me, me, true},
		"PID namespace":          {container{flags: syscall.CLONE_NEWPID}, 0, 0, me, false},
		"IPC namespace":          {container{flags: syscall.CLONE_NEWIPC}, 0, 0, me, true},
		"mount namespace":        {container{flags: syscall.CLONE_NEWNS}, 0, 0, me, true},
		"network namespace":      {container{flags: syscall.CLONE_NEWNET}, 0, 0, me, true},
		"user namespace":         {container{flags: syscall.CLONE_NEWUSER, as: 1000}, 0, 1000, me, true},
		"all namespaces":         {container{flags: all}, 0, 0, me, false},
		"all and user namespace": {container{flags: all | syscall.CLONE_NEWUSER}, 0, 0, me, false},
		"another user":           {container{user: 65533}, 0o666, 0, 65533, true},
	} {
		t.Run(name, func(t *testing.T) {
			coretest.CheckNoLeaks(t)
			d := host(t)
			folder := openFolder(t)
			l, err := Listen(filepath.Join(folder, "socket"), Options{Devices: []core.Device{d}, Mode: c.mode, Allow: AllowUsers(c.uid)})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			cmd := c.command(t, childContainer, folder)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ctx, ended := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() { failed <- cmd.Wait(); ended() }()
			a, err := l.Accept(ctx)
			if err != nil {
				t.Fatal(err, <-failed)
			}
			defer a.Close()
			x, r, err := a.Receive(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := core.At[int32](x, 7); err != nil || got != 77 || r.Mechanism != exchange.Map || r.BytesCopied != 0 {
				t.Errorf("received %d, %+v, error %v", got, r, err)
			}
			x.Close()
			if p := a.Peer(); int(p.PID) != cmd.Process.Pid || p.UID != c.uid {
				t.Errorf("the peer is %v, and should be process %d of user %d", p, cmd.Process.Pid, c.uid)
			}
			pid := 0
			if c.sees {
				pid = os.Getpid()
			}
			var own, theirs, uid int
			if _, err := fmt.Sscan(r.Label, &own, &theirs, &uid); err != nil || theirs != pid || uint32(uid) != c.seen {
				t.Errorf("the peer says %q: it should see process %d of user %d, error %v", r.Label, pid, c.seen, err)
			}
			y, err := core.Empty(t.Context(), d, core.TypeInt32, []int64{words}, memfd)
			if err != nil {
				t.Fatal(err)
			}
			defer y.Close()
			values, err := core.Mutable[int32](y)
			if err != nil {
				t.Fatal(err)
			}
			values[3] = 33
			if _, err := a.Send(t.Context(), y); err != nil {
				t.Error(err)
			}
			if err := <-failed; err != nil {
				t.Error(err)
			}
		})
	}
}

// Users whom the mode of the socket or the list keeps out do not connect, and see why. They are no
// error of the listener.
func TestUsersWhoMayNotConnect(t *testing.T) {
	for name, c := range map[string]struct {
		mode fs.FileMode
		want int
	}{
		"by the mode 0660": {0o660, exitPermission},
		"by the list":      {0o666, exitRefused},
	} {
		t.Run(name, func(t *testing.T) {
			coretest.CheckNoLeaks(t)
			folder := openFolder(t)
			l, err := Listen(filepath.Join(folder, "socket"), Options{Mode: c.mode, Allow: AllowUsers(0, 65533)})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ctx, stop := context.WithCancel(t.Context())
			accepted := make(chan error, 1)
			go func() {
				_, err := l.Accept(ctx)
				accepted <- err
			}()
			cmd := container{user: 65532}.command(t, childContainer, folder)
			err = cmd.Run()
			stop()
			if cmd.ProcessState.ExitCode() != c.want {
				t.Errorf("the other process ended with %v, and should with %d", err, c.want)
			}
			if err := <-accepted; !errors.Is(err, context.Canceled) {
				t.Errorf("Accept: %v", err)
			}
		})
	}
}

// receiveTightly is the other process of TestTightLimits. It tells the parent by labels what it
// waits for, and what it has received.
func receiveTightly() error {
	ctx := context.Background()
	d, err := openHost()
	if err != nil {
		return err
	}
	c, err := inherited([]core.Device{d})
	if err != nil {
		return err
	}
	defer c.Close()
	say := func(text string) error {
		x, err := core.Empty(ctx, d, core.TypeInt32, []int64{0}, core.AllocOptions{})
		if err == nil {
			_, err = c.SendLabeled(ctx, x, text)
			x.Close()
		}
		return err
	}
	received := func() error {
		x, _, err := c.Receive(ctx, d)
		text := "received"
		switch {
		case errors.Is(err, core.ErrOutOfMemory):
			text = "out of memory"
		case err != nil:
			return err
		default:
			x.Close()
		}
		return say(text)
	}
	var files, space unix.Rlimit
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &files), unix.Getrlimit(unix.RLIMIT_AS, &space), c.Handshake(ctx)); err != nil {
		return err
	}
	for _, limit := range []struct {
		what  int
		value unix.Rlimit
	}{
		{unix.RLIMIT_NOFILE, files},
		{unix.RLIMIT_NOFILE, unix.Rlimit{Cur: 0, Max: files.Max}},
		{unix.RLIMIT_NOFILE, files},
		{unix.RLIMIT_AS, unix.Rlimit{Cur: 8 << 30, Max: space.Max}},
		{unix.RLIMIT_AS, space},
	} {
		if coretest.Sanitized && limit.what == unix.RLIMIT_AS {
			limit.value = space
		}
		if err := unix.Setrlimit(limit.what, &limit.value); err != nil {
			return err
		}
		if err := errors.Join(say("ready"), received()); err != nil {
			return err
		}
	}
	return c.WaitReleased(ctx)
}

// A receiver without a descriptor or without memory loses the tensor, and not the connection.
func TestTightLimits(t *testing.T) {
	d := host(t)
	a, _ := start(t, childTight, of(d))
	heard := func() string {
		x, r, err := a.Receive(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		x.Close()
		return r.Label
	}
	huge := int64(10 << 30)
	if coretest.Sanitized {
		huge = 1 << 20 // the other process needs more address space than the limit
	}
	for i, c := range []struct {
		bytes int64
		want  string
	}{
		{4096, "received"}, {4096, "out of memory"}, {4096, "received"}, {huge, "out of memory"}, {4096, "received"},
	} {
		if text := heard(); text != "ready" {
			t.Fatalf("round %d: %q", i, text)
		}
		x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{c.bytes}, memfd) // its pages are not written
		if err != nil {
			t.Fatal(err)
		}
		send(t, a, x)
		if coretest.Sanitized && c.bytes == huge {
			c.want = "received"
		}
		if text := heard(); text != c.want {
			t.Errorf("round %d, %s bytes: %q, want %q", i, strconv.FormatInt(c.bytes, 10), text, c.want)
		}
		if err := a.WaitReleased(t.Context()); err != nil { // also if it was not opened
			t.Fatal(err)
		}
		x.Close()
	}
	if s := a.Stats(); s.InFlight != 0 || s.Released != 5 {
		t.Errorf("%+v", s)
	}
}
