package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/share"
)

// passed runs dlx receive and dlx send at the same time, by run.
func passed(t *testing.T, run func(*testing.T, ...string) outcome, receive, send string) (received, sent outcome) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "socket")
	done := make(chan outcome, 1)
	go func() { done <- run(t, append([]string{"receive", socket, "--json"}, strings.Fields(receive)...)...) }()
	awaitSocket(socket)
	sent = run(t, append(strings.Fields(send), "--to", socket, "--json")...)
	if sent.code != exitOK { // the receiver may still wait for somebody who connects
		if c, err := net.Dial("unixpacket", socket); err == nil {
			_ = c.Close()
		}
	}
	received = <-done
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is left")
	}
	return received, sent
}

// awaitSocket waits until a socket is there; what comes after it fails if it is not.
func awaitSocket(path string) {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(path); err == nil {
			return
		}
	}
}

func TestSendAndReceive(t *testing.T) {
	for _, c := range []struct {
		receive, send string
	}{
		{"--to cpu --verify", "send " + tensors},
		{"--to ext_dev:1 --verify", "send " + tensors + " --from ext_dev:0"},
		{"--to cpu --verify --count 1", "send " + digits},
	} {
		received, sent := passed(t, dlx, c.receive, c.send)
		if received.code != exitOK || sent.code != exitOK {
			t.Errorf("%s, %s: exit codes %d and %d:\n%s%s", c.receive, c.send, received.code, sent.code, received.stderr, sent.stderr)
			continue
		}
		s, r := decode[sharedResult](t, sent, "send"), decode[sharedResult](t, received, "receive")
		if len(s.Tensors) == 0 || len(r.Tensors) != len(s.Tensors) || r.Peer.PID != os.Getpid() || s.Peer.PID != os.Getpid() || len(r.Peer.Devices) == 0 {
			t.Errorf("%s, %s: sent %+v, received %+v", c.receive, c.send, s, r)
			continue
		}
		for i, x := range r.Tensors {
			y := s.Tensors[i]
			if x.Tensor != y.Tensor || x.Checksum != y.Checksum || x.Verified == nil || !*x.Verified || x.Checksum == "" {
				t.Errorf("%s, %s: sent %+v, received %+v", c.receive, c.send, y, x)
			}
			if strings.Contains(c.receive+c.send, "ext_dev") {
				continue
			}
			if m := x.Report["mechanism"]; m != "map" && m != "alias" || s.BytesCopied != 0 || r.BytesCopied != 0 {
				t.Errorf("%s, %s: sent %+v, received %+v", c.receive, c.send, y, x)
			}
		}
	}
}

// If a file is passed within the host, nothing better was possible, and no line says so.
func TestSendWithinTheHostHasNoReasons(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	received := make(chan outcome, 1)
	go func() { received <- dlx(t, "receive", socket, "--to", "cpu") }()
	awaitSocket(socket)
	for _, o := range []outcome{dlx(t, "send", digits, "--to", socket), <-received} {
		if o.code != 0 || strings.Contains(o.stdout, "\nnot ") || !strings.Contains(o.stdout, "none") {
			t.Errorf("exit code %d: %s%s", o.code, o.stdout, o.stderr)
		}
	}
}

// What was refused beside the mechanism that was used is a better order.
func TestReasonsOfTheOrderNameIt(t *testing.T) {
	var r share.Report
	r.Mechanism = exchange.Map
	if s := refusedText(r, exchange.Map); s != "semaphore_wait" {
		t.Errorf("the better way is %q", s)
	}
	r.Mechanism = exchange.Staged
	if s := refusedText(r, exchange.Map); s != "map" {
		t.Errorf("the better way is %q", s)
	}
}

// sharedResult is a shareResult as it is read: the report of a tensor has words in it.
type sharedResult struct {
	Socket string `json:"socket"`
	File   string `json:"file"`
	Peer   struct {
		PID     int                `json:"pid"`
		UID     int                `json:"uid"`
		GID     int                `json:"gid"`
		Devices []share.PeerDevice `json:"devices"`
	} `json:"peer"`
	Tensors []struct {
		Tensor   string         `json:"tensor"`
		DType    string         `json:"dtype"`
		Shape    []int64        `json:"shape"`
		Checksum string         `json:"checksum"`
		Verified *bool          `json:"verified"`
		Report   map[string]any `json:"report"`
	} `json:"tensors"`
	BytesCopied int64 `json:"bytes_copied"`
}

// A tensor that differs from what the sender says has exit code 3. One whose label is not that of
// dlx send is not compared.
func TestReceiveFindsDifferences(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	done := make(chan outcome, 1)
	go func() { done <- dlx(t, "receive", socket, "--to", "cpu", "--verify", "--json") }()
	x, err := core.FromSlice([]int32{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	registry := new(core.Registry)
	if err := registry.Register(cpu.New()); err != nil {
		t.Fatal(err)
	}
	opened, err := (&app{registry: registry}).openForSharing(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := opened.close(); err != nil {
			t.Error(err)
		}
	}()
	var c *share.Conn
	for end := time.Now().Add(10 * time.Second); c == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		c, _ = share.Dial(t.Context(), socket, share.Options{Devices: opened.devices})
	}
	for _, label := range []string{labelOf(checksumOf(t.Context(), x), "right"), "of another program", "crc32c:00000000 wrong"} {
		if _, err := c.SendLabeled(t.Context(), x, label); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitReleased(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	o := <-done
	var failure *errorResult
	r := decodeBoth[sharedResult](t, o, "receive", &failure)
	if o.code != exitMismatch || len(r.Tensors) != 3 || !*r.Tensors[0].Verified || r.Tensors[1].Verified != nil || *r.Tensors[2].Verified {
		t.Errorf("exit code %d, %+v: %s", o.code, r, o.stderr)
	}
}

func TestSendAndReceiveFail(t *testing.T) {
	nobody := filepath.Join(t.TempDir(), "nobody")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"send x.npy", exitUsage, `required flag(s) "to"`},
		{"send x.npy --to s --from cpu,cpu", exitUsage, "must be one device"},
		{"send x.npy --to s --only [", exitUsage, "--only"},
		{"send " + digits + " --to " + nobody, exitFailed, "start the process that listens there"},
		{"send " + digits + " --to " + nobody + " --only nosuch*", exitFailed, "nosuch*"},
		{"send " + digits + " --to " + nobody + " --only d* --only nosuch*", exitFailed, "nosuch*"},
		{"send nosuch.npy --to " + nobody, exitFailed, "nosuch.npy"},
		{"receive", exitUsage, "accepts 1 arg"},
		{"receive s", exitUsage, `required flag(s) "to" not set: --to cpu`},
		{"receive s --to cpu,cpu", exitUsage, "must be one device"},
		{"receive s --to cpu --count -1", exitUsage, "at least 0"},
		{"receive " + digits + " --to cpu", exitFailed, "is not a socket"},
	} {
		if o := dlx(t, strings.Fields(c.args)...); o.code != c.code || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%s: exit code %d, want %d, with %q in\n%s", c.args, o.code, c.code, c.says, o.stderr)
		}
	}
}

// firstWrite notes that something was written.
type firstWrite struct {
	once    sync.Once
	written chan string
}

func (w *firstWrite) Write(b []byte) (int, error) {
	w.once.Do(func() { w.written <- string(b) })
	return len(b), nil
}

// A receiver that gets nothing says what it waits for, and goes on.
func TestReceiveSaysWhatItWaitsFor(t *testing.T) {
	defer func(before time.Duration) { quietFor = before }(quietFor)
	quietFor = time.Millisecond
	d, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	path, o := filepath.Join(t.TempDir(), "socket"), share.Options{Devices: []core.Device{d}}
	l, err := share.Listen(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *share.Conn, 1)
	go func() {
		c, _ := l.Accept(t.Context())
		accepted <- c
	}()
	sender, err := share.Dial(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	c := <-accepted
	defer c.Close()
	w := &firstWrite{written: make(chan string, 1)}
	sent := make(chan error, 1)
	go func() {
		if text := <-w.written; !strings.Contains(text, "has sent no tensor yet") {
			t.Errorf("it says %q", text)
		}
		x, err := core.FromSlice([]int32{7})
		if err == nil {
			_, err = sender.Send(t.Context(), x)
			x.Close()
		}
		sent <- err
	}()
	a := &app{log: newLogger(w, "info", "text")}
	y, _, err := a.receiveNext(t.Context(), c, d, 0)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	y.Close()
}
