//go:build ucx && linux && cgo

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/remote"
	"github.com/dlx-go/dlx/stream"
	"github.com/dlx-go/dlx/tensorfile"
)

// served is a dlx serve that runs.
type served struct {
	url  string
	log  *logged        // grows while it runs
	stop func() outcome // interrupts it, and returns what it has left
}

// logged is the lines of a log.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n") + "\n"
}

// wait waits for a line that matches the expression.
func (l *logged) wait(t *testing.T, expression string) {
	t.Helper()
	want := regexp.MustCompile("(?m)" + expression + "$")
	for end := time.Now().Add(time.Minute); !want.MatchString(l.String()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log has no line %q:\n%s", expression, l)
		}
	}
}

// startServe runs dlx serve on the loopback interface.
func startServe(t *testing.T, args ...string) served {
	t.Helper()
	registry := new(core.Registry)
	for _, b := range []core.Backend{cpu.New(), coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})} {
		if err := registry.Register(b); err != nil {
			t.Fatal(err)
		}
	}
	ctx, interrupt := context.WithCancel(context.Background())
	r, stderr := io.Pipe()
	var stdout bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, registry, append([]string{"serve", "--listen", "127.0.0.1:0", "--json"}, args...), strings.NewReader(""), &stdout, stderr)
		_ = stderr.Close()
		ended <- code
	}()
	address, read, log := make(chan string, 1), make(chan struct{}), new(logged)
	go func() {
		defer close(read)
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			log.add(lines.Text())
			if m := regexp.MustCompile(`serving.* address=(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
			}
		}
		close(address)
	}()
	stop := func() outcome {
		interrupt()
		code := <-ended
		<-read
		return outcome{code, stdout.String(), log.String()}
	}
	t.Cleanup(interrupt)
	at, ok := <-address
	if !ok {
		t.Fatalf("dlx serve: %+v", stop())
	}
	return served{peerScheme + at, log, stop}
}

// secret writes a file with a secret.
func secret(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What dlx serve offers, dlx load takes, verified: all, some, and parts, from and onto the host and a device.
func TestServeAndLoad(t *testing.T) {
	token := secret(t, "0123456789abcdef\n")
	for _, from := range []string{"cpu", "ext_dev:0"} {
		s := startServe(t, tensors, digits, "--only", "digits", "--only", "*first*", "--device", from, "--token-file", token)
		bytes, n := int64(0), 0
		for args, want := range map[string]int{
			"--to cpu": 4, "--to ext_dev:1": 4, "--to ext_dev:1 --only first*": 3, "--to cpu --only digits --slice 0:1/3 --checksum --repeat 2": 1,
			"--to cpu --dtype float32 --threads 1": 4,
		} {
			o := dlx(t, append(strings.Fields("load "+s.url+" --verify --json "+args), "--token-file", token)...)
			if o.code != exitOK {
				t.Errorf("%s: exit code %d: %s", args, o.code, o.stderr)
				continue
			}
			n++
			r := decode[loadResult](t, o, "load")
			if f := r.Report.Files[0]; r.Report.Tensors != want || !*r.Verified || r.File != s.url || f.Path != s.url || f.Read != "source" || !strings.HasPrefix(f.Reason, "by ") || f.Cached != -1 {
				t.Errorf("%s: %+v", args, r)
			}
			bytes += r.Report.Read * int64(len(r.Runs))
		}
		for args, want := range map[string]string{
			"--only nothing --token-file " + token: "no tensor matches",
			"--insecure":                           "leave out --insecure, and give the --token-file",
			"--token-file " + secret(t, "another secret of 32 bytes......"): "another token",
			"--token-file " + secret(t, "short"):                            "has 5 bytes: a secret has 16 to 1024",
			"--token-file nosuch":                                           "nosuch",
		} {
			o := dlx(t, strings.Fields("load "+s.url+" --to cpu "+args)...)
			if o.code != exitFailed || !strings.Contains(o.stderr, want) {
				t.Errorf("%s: exit code %d: %s", args, o.code, o.stderr)
			}
		}
		n++ // the one for which no tensor matches connects
		o := s.stop()
		r := decode[serveResult](t, o, "serve")
		if o.code != exitOK || len(r.Tensors) != 4 || r.Connections != n || r.Sent != bytes || r.Refused != 0 || r.Served == 0 || r.Device.String() != from || r.Bytes == 0 {
			t.Errorf("exit code %d, result %+v: %d bytes by %d connections were loaded\n%s", o.code, r, bytes, n, o.stderr)
		}
	}
}

// The text names the tensors and the counts.
func TestServePrintsWhatItHasServed(t *testing.T) {
	s := startServe(t, tensors, "--only", "total", "--insecure", "--json=false")
	if o := dlx(t, "load", s.url+"/", "--to", "cpu", "--insecure"); o.code != exitOK || !strings.Contains(o.stdout, "\n"+s.url+"  8 B    1        -       source  by ") {
		t.Errorf("exit code %d:\n%s%s", o.code, o.stdout, o.stderr)
	}
	o := s.stop()
	text := regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(o.stdout, "ADDRESS")
	want := "TENSOR            BYTES\ntotal float64[]   8 B\n\naddress: ADDRESS, device: cpu, tensors: 1, bytes: 8 B\nconnections: 1, requests: "
	if squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }; o.code != exitOK || !strings.HasPrefix(squeeze(text), squeeze(want)) {
		t.Errorf("exit code %d:\n%swant\n%s", o.code, text, want)
	}
}

// The log says what is offered when it begins, and what a peer takes while the connection lasts.
func TestServeSaysWhatPeersTake(t *testing.T) {
	before := tellEvery
	tellEvery = time.Millisecond
	defer func() { tellEvery = before }()
	s := startServe(t, tensors, "--insecure")
	defer s.stop() // first, since it reads tellEvery
	s.log.wait(t, `serving until interrupted address=127\.0\.0\.1:\d+ bytes="[^"]+" names="\w+, \w+, \w+ and \d+ more" tensors=\d+`)
	c, err := remote.Dial(t.Context(), strings.TrimPrefix(s.url, peerScheme), remote.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.log.wait(t, `connected peer=127\.0\.0\.1:\d+`)
	list, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	for i := range 2 {
		x, _, err := c.Fetch(t.Context(), list[i].Descriptor, host)
		if err != nil {
			t.Fatal(err)
		}
		_ = x.Close()
		s.log.wait(t, fmt.Sprintf(`taken peers=1 requests=%d sent="\d+ B"`, i+1))
	}
	if o := dlx(t, "load", s.url, "--only", "total", "--to", "cpu", "--insecure"); o.code != exitOK || !strings.Contains(o.stdout, "\n"+s.url+"  8 B    1        -       source  by ") {
		t.Errorf("one of the tensors: exit code %d:\n%s%s", o.code, o.stdout, o.stderr)
	}
	if o := dlx(t, "load", s.url, "--to", "cpu", "--token-file", secret(t, "0123456789abcdef\n")); o.code != exitFailed || !strings.Contains(o.stderr, "give --insecure on both sides") {
		t.Errorf("with a token, exit code %d: %s", o.code, o.stderr)
	}
}

// waiting is a device that has no memory before ready is closed.
type waiting struct {
	core.Device
	ready chan struct{}
}

func (d waiting) Alloc(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	<-d.ready
	return d.Device.Alloc(ctx, size, o)
}

// The log says what is taken of a large tensor before the request is done, for all peers together, and what was sent back.
func TestServeSaysWhatPeersAreTaking(t *testing.T) {
	before := tellEvery
	tellEvery = time.Millisecond
	defer func() { tellEvery = before }()
	s := startServe(t, "--bench", "--insecure")
	defer s.stop()
	host, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	ready, results := make(chan struct{}), make(chan error, 2)
	release := sync.OnceFunc(func() { close(ready) })
	defer release()
	for range 2 {
		c, err := remote.Dial(t.Context(), strings.TrimPrefix(s.url, peerScheme), remote.Options{Insecure: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		list, err := c.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			x, _, err := c.Fetch(t.Context(), list[0].Descriptor, waiting{host, ready})
			_ = x.Close()
			if err == nil {
				err = echoed(t.Context(), c, host)
			}
			results <- err
		}()
	}
	// 4 pieces of 4 MiB for each. A connection may serve the second peer before Accept has returned it.
	s.log.wait(t, `taken peers=[12] requests=0 sent="33.55 MB"`)
	release()
	if err := errors.Join(<-results, <-results); err != nil {
		t.Fatal(err)
	}
	s.log.wait(t, `taken peers=2 requests=2 sent="136.22 MB"`) // two tensors of 64 MiB, and two of 1 MB
}

// echoed sends a tensor of 1 MB to a dlx serve --bench, and receives it.
func echoed(ctx context.Context, c *remote.Conn, d core.Device) error {
	x, err := core.FromSlice(make([]byte, 1e6))
	if err != nil {
		return err
	}
	defer x.Close()
	if _, err := c.Send(ctx, x); err != nil {
		return err
	}
	y, _, err := c.Receive(ctx, d)
	_ = y.Close()
	return err
}

// A peer that connects before all is offered waits.
func TestPeersWaitForOffers(t *testing.T) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	l, err := remote.ListenOn(later{socket, ready}, remote.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	offer := sync.OnceFunc(func() { close(ready) })
	defer offer()
	soon, enough := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer enough()
	if c, err := remote.Dial(soon, socket.Addr().String(), remote.Options{Insecure: true}); !errors.Is(err, context.DeadlineExceeded) {
		_ = c.Close()
		t.Fatalf("before: %v", err)
	}
	offer()
	c, err := remote.Dial(t.Context(), socket.Addr().String(), remote.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
}

// Certificates of an authority that both sides know are enough, and others are refused.
func TestServeWithCertificates(t *testing.T) {
	us, others := certificates(t), certificates(t)
	s := startServe(t, append([]string{tensors, "--only", "total"}, us...)...)
	if o := dlx(t, append([]string{"load", s.url, "--to", "cpu", "--verify"}, us...)...); o.code != exitOK {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
	if o := dlx(t, append([]string{"load", s.url, "--to", "cpu"}, others...)...); o.code != exitFailed {
		t.Errorf("with another authority: exit code %d: %s", o.code, o.stderr)
	}
	if o := s.stop(); o.code != exitOK || decode[serveResult](t, o, "serve").Connections != 1 {
		t.Errorf("exit code %d: %s", o.code, o.stdout)
	}
}

// certificates writes a certificate for 127.0.0.1 that is its own authority, and returns the flags for it.
func certificates(t *testing.T) []string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, x, x, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secretKey, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cert, private := filepath.Join(folder, "cert"), filepath.Join(folder, "key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, private: {Type: "EC PRIVATE KEY", Bytes: secretKey}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--cert", cert, "--key", private, "--ca", cert}
}

// fileOf writes a file with tensors of these names.
func fileOf(t *testing.T, file string, names ...string) string {
	t.Helper()
	x, err := core.FromSlice([]byte{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var all []tensorfile.Named
	for _, name := range names {
		all = append(all, tensorfile.Named{Name: name, Tensor: x})
	}
	path := filepath.Join(t.TempDir(), file)
	if err := tensorfile.WriteFile(t.Context(), path, all, tensorfile.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return path
}

// A tensor that no peer could take is refused before anything is served, with its file and what to do: one without a name, one with a
// very long name, and one of two of the same name. So is a file without a match.
func TestServeRefuses(t *testing.T) {
	long := strings.Repeat("n", 1025)
	if o := dlx(t, "serve", fileOf(t, "empty.safetensors"), "--listen", "127.0.0.1:0", "--insecure"); o.code != exitFailed || !strings.Contains(o.stderr, "no tensors") {
		t.Errorf("a file without tensors: exit code %d: %s", o.code, o.stderr)
	}
	nameless, longer, bench := fileOf(t, "nameless.safetensors", "", "x"), fileOf(t, "longer.safetensors", long, "x"), fileOf(t, "bench.safetensors", benchRead)
	for args, want := range map[string]string{
		nameless:                               nameless + " has a tensor without a name, which no peer could ask for: --only '?*'",
		longer:                                 "of a tensor of " + longer + " has 1025 bytes, and at most 1024 are possible",
		tensors + " " + longer + " --only n*":  "has 1025 bytes",
		nameless + " " + longer + " --only x":  nameless + " and " + longer + " both have a tensor ",
		bench + " --bench":                     bench + " and --bench both have a tensor ",
		tensors + " " + tensors:                "start a dlx serve for each of them",
		tensors + " --only total --only typo*": "no tensor matches",
		tensors + " --only nothing":            "no tensor matches",
		tensors + " --device vulkan:0":         whyDriverless,
		"nosuch.npy":                           "nosuch.npy",
		tensors + " --listen 10.0.0.0:":        "cannot assign requested address",
		"nosuch.npy --listen 10.0.0.0:":        "nosuch.npy", // files come first: no peer finds a part of them
	} {
		o := dlx(t, append(strings.Fields("serve --listen 127.0.0.1:0 --insecure"), strings.Fields(args)...)...)
		if o.code != exitFailed || !strings.Contains(o.stderr, want) || o.stdout != "" {
			t.Errorf("%s: exit code %d: %s", args, o.code, o.stderr)
		}
	}
}

// The tensors that peers can take are served without the others.
func TestServeLeavesOut(t *testing.T) {
	s := startServe(t, fileOf(t, "x.safetensors", "", strings.Repeat("n", 1025), strings.Repeat("m", 1024)), "--only", "m*", "--insecure")
	o := dlx(t, "load", s.url, "--to", "cpu", "--insecure", "--verify", "--json")
	if r := decode[loadResult](t, o, "load"); o.code != exitOK || r.Report.Tensors != 1 {
		t.Errorf("exit code %d, %+v: %s", o.code, r, o.stderr)
	}
	if r := decode[serveResult](t, s.stop(), "serve"); len(r.Tensors) != 1 {
		t.Errorf("%d tensors are served", len(r.Tensors))
	}
}

// When no connection can be accepted any more, dlx serve fails, and ends the connections that it has.
func TestServeEndsWithItsListener(t *testing.T) {
	l, err := remote.Listen("127.0.0.1:0", remote.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &serving{app: &app{log: newLogger(io.Discard, "info", "text")}, listener: l, conns: make(map[*remote.Conn]struct{})}
	ended := make(chan error, 1)
	go func() { ended <- s.accept(t.Context()) }()
	c, err := remote.Dial(t.Context(), l.Addr().String(), remote.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	end := time.Now().Add(time.Minute)
	for accepted := 0; accepted == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		accepted = s.r.Connections
		s.mu.Unlock()
	}
	_ = l.Close()
	if err := <-ended; !errors.Is(err, core.ErrClosed) || exitCode(err, true) != exitFailed {
		t.Errorf("dlx serve has ended with %v", err)
	}
	<-c.Done()
	if err := c.Err(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection has ended with %v, and not because the peer has closed it", err)
	}
}

// The plan has the steps of both sides, with the reasons, and the transports if the peer answers.
func TestPlanToAnotherMachine(t *testing.T) {
	s := startServe(t, tensors, "--insecure")
	o := dlx(t, "plan", "--from", "ext_dev:1", "--to", s.url+"/cpu", "--bytes", "10MB", "--insecure", "--json")
	r := decode[peerPlan](t, o, "plan")
	if o.code != exitOK || len(r.Transports) == 0 || r.Reason != "" || r.Peer != s.url || len(r.Steps) != 3 {
		t.Fatalf("exit code %d, result %+v: %s", o.code, r, o.stderr)
	}
	here, there := r.Steps[0], r.Steps[2]
	if here.Mechanism != "staged" || !strings.Contains(here.Reason, "ext_dev:1") || here.Copied != 10e6 || there.Mechanism != "direct" || there.Reason != "" || there.Copied != 0 {
		t.Errorf("steps %+v", r.Steps)
	}
	s.stop()
	o = dlx(t, "plan", "--to", s.url+"/vulkan:0", "--insecure")
	text := regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(o.stdout, "ADDRESS")
	const want = `cpu -> ucx://ADDRESS/vulkan:0, 1.05 MB
  here: when the last write to the tensor is done, UCX reads the memory of the tensor on cpu
  network: UCX has not chosen a transport: not connected: remote: Dial: closed: no connection to ADDRESS: dial tcp ADDRESS: connect: connection refused: start the process that listens there
  there: UCX writes memory of the host, while vulkan:0 copies the piece before into the tensor
    not direct: UCX uses memory of the host, and the tensor lies on vulkan:0
`
	if o.code != exitOK || text != want {
		t.Errorf("exit code %d:\n%swant\n%s", o.code, text, want)
	}
}

// A file as the source: which of its tensors are mapped, and their bytes.
func TestPlanOfAFileToAnotherMachine(t *testing.T) {
	s := startServe(t, tensors, "--insecure")
	r := decode[peerPlan](t, dlx(t, "plan", "--from", digits, "--to", s.url+"/cpu", "--insecure", "--json"), "plan")
	i := decode[inspectResult](t, dlx(t, "inspect", digits, "--json"), "inspect")
	bytes, copied := int64(0), int64(0)
	for _, x := range i.Tensors {
		bytes += x.Bytes
		if !x.InPlace {
			copied += x.Bytes
		}
	}
	if r.File != digits || r.Tensors != len(i.Tensors) || r.Bytes != bytes || len(r.Transports) == 0 || len(r.Steps) != 4 || r.Steps[0].Where != "file" ||
		r.Steps[0].Copied != copied || (copied > 0) != (r.Steps[0].Mechanism == "staged") || (copied > 0) != (r.Steps[0].Reason != "") {
		t.Errorf("%+v; the file has %d tensors with %d bytes, of which %d are copied", r, len(i.Tensors), bytes, copied)
	}
	s.stop()
	o := dlx(t, "plan", "--from", "../../testdata/digits_compressed.npz", "--to", s.url+"/cpu", "--insecure")
	const want = "; 3 of 3 tensors are copied into memory of the host before\n    not mapped: "
	if o.code != exitOK || !strings.Contains(o.stdout, want) {
		t.Errorf("exit code %d:\n%s%s", o.code, o.stdout, o.stderr)
	}
	for args, want := range map[string]string{
		"--from " + digits:                                                               "dlx load",
		"--from " + digits + " --to cpu":                                                 "dlx load",
		"--from ./nosuch.npy --to " + s.url + "/cpu --insecure":                          "no such file",
		"--from nosuch --to " + s.url + "/cpu --insecure":                                "no such file",
		"--from cpu --from " + digits + " --to " + s.url + "/cpu --insecure":             "choose one",
		"--from " + tensors + " --from " + digits + " --to " + s.url + "/cpu --insecure": "another file",
		"--from " + digits + " --bytes 1MB --to " + s.url + "/cpu --insecure":            "--bytes",
	} {
		if o := dlx(t, append([]string{"plan"}, strings.Fields(args)...)...); o.code != exitUsage || !strings.Contains(o.stderr, want) {
			t.Errorf("plan %s: exit code %d: %s", args, o.code, o.stderr)
		}
	}
}
