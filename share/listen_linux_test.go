package share

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

func TestListenAndDial(t *testing.T) {
	d, e := host(t), host(t)
	path := filepath.Join(t.TempDir(), "socket")
	stale, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if _, err := Listen(path, of(d)); !errors.Is(err, core.ErrExists) {
		t.Errorf("a path where somebody listens: %v", err)
	}
	_ = stale.Close()
	l, err := Listen(path, Options{Devices: []core.Device{d}, Mode: 0o640})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, error %v", info.Mode(), err)
	}
	accepted := make(chan *Conn, 1)
	go func() {
		c, err := l.Accept(context.Background())
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	a, err := Dial(t.Context(), path, of(e))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := <-accepted
	defer b.Close()
	if err := b.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []Peer{a.Peer(), b.Peer()} {
		if p.PID != int32(os.Getpid()) || p.UID != uint32(os.Getuid()) || p.GID != uint32(os.Getgid()) || len(p.Devices) != 1 ||
			p.Devices[0].ID != core.CPU || !slices.Equal(p.Devices[0].Imports, []core.HandleType{core.HandleMemFD}) {
			t.Errorf("peer %+v", p)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := l.Accept(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Accept after the end of its context: %v", err)
	}
	waiting := make(chan error, 1)
	go func() { _, err := l.Accept(context.Background()); waiting <- err }()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, core.ErrClosed) {
		t.Errorf("Accept of a listener that is closed: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	if _, err := Dial(t.Context(), path, of(e)); !errors.Is(err, core.ErrClosed) {
		t.Errorf("Dial where nobody listens: %v", err)
	}
	send(t, a, shareable(t, e, 10, memfd)) // connections outlive the listener
	receive(t, b, d)
}

func TestListenLeavesOtherThingsAlone(t *testing.T) {
	d := host(t)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]error{path: core.ErrExists, "": core.ErrInvalid, "@name": core.ErrInvalid, filepath.Join(path, "x"): core.ErrInvalid} {
		if l, err := Listen(p, of(d)); !errors.Is(err, want) {
			_ = l.Close()
			t.Errorf("Listen(%q): %v, want %v", p, err, want)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	// A socket that another process has put there is not removed.
	path = filepath.Join(t.TempDir(), "socket")
	first, err := Listen(path, of(d))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(path, of(d))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the first listener has removed the socket of the second: %v", err)
	}
}

func TestAllow(t *testing.T) {
	d := host(t)
	path := filepath.Join(t.TempDir(), "socket")
	asked := make(chan Peer, 1)
	l, err := Listen(path, Options{Devices: []core.Device{d}, Allow: func(p Peer) error { asked <- p; return errors.New("no") }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := l.Accept(ctx); ended <- err }()
	if _, err := Dial(t.Context(), path, of(d)); !errors.Is(err, core.ErrClosed) {
		t.Errorf("a process that may not connect: %v", err)
	}
	if p := <-asked; p.PID != int32(os.Getpid()) {
		t.Errorf("asked about %v", p)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a refused process is no error of Accept: %v", err)
	}
}

// A listener with a relative path is closed where it was made.
func TestListenAtARelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	l, err := Listen("socket", of(host(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(l.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// A process that has made its socket and does not listen yet is waited for: who sees the socket may connect at once.
func TestDialWaitsForAListener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t.Context(), path); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("nobody listens, and the error is %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dial(ended, path); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended, the error is %v", err)
	}
	connected := make(chan error, 1)
	go func() {
		for { // a busy machine may not listen in time for one call
			c, err := dial(t.Context(), path)
			if err == nil {
				_ = c.Close()
			}
			if !errors.Is(err, unix.ECONNREFUSED) {
				connected <- err
				return
			}
		}
	}()
	if err := unix.Listen(fd, 1); err != nil {
		t.Fatal(err)
	}
	if err := <-connected; err != nil {
		t.Error(err)
	}
}
