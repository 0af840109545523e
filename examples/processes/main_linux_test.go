package processes

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/share"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// docs/share.md shows these programs; what it shows must be what compiles.
func TestTheDocumentationShowsThesePrograms(t *testing.T) {
	page, err := os.ReadFile("../../docs/share.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"receive", "send", "publish", "subscribe"} {
		source, err := os.ReadFile(filepath.Join(name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(string(source), "\npackage main\n")
		code, _, _ = strings.Cut(code, "\nfunc check(")
		if !strings.Contains(string(page), "```go\npackage main\n"+code+"```") {
			t.Errorf("docs/share.md does not show %s/main.go as it is", name)
		}
	}
}

func TestTheProgramsRun(t *testing.T) {
	for _, c := range []struct{ listener, dialer, listened, dialed string }{
		{"receive", "send", "received: map, 0 bytes copied: float32[1080 1920] on cpu begins with 42\n", "sent: map, 0 bytes copied\n"},
		{"subscribe", "publish", "the first pixels have the sum 4950\n", ""},
	} {
		t.Run(c.listener, func(t *testing.T) { run(t, c.listener, c.dialer, c.listened, c.dialed) })
	}
}

// Any receiver learns that the sender has ended as it should.
func TestTheSenderClosesTheConnection(t *testing.T) {
	coretest.BuildsProgram(t)
	folder := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", folder, "./send").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	host, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	listener, err := share.Listen(filepath.Join(folder, "socket"), share.Options{Devices: []core.Device{host}})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	sender := exec.CommandContext(t.Context(), filepath.Join(folder, "send"), listener.Path())
	if err := sender.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	frame, _, err := conn.Receive(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	if err := frame.Close(); err != nil {
		t.Error(err)
	}
	if err := sender.Wait(); err != nil {
		t.Error(err)
	}
	<-conn.Done()
	if err := conn.Err(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection has ended with %v, want io.EOF", err)
	}
}

// run runs two programs, of which the first one makes the socket, and compares what they print.
func run(t *testing.T, listener, dialer, listened, dialed string) {
	coretest.BuildsProgram(t)
	folder := t.TempDir()
	socket := filepath.Join(folder, "socket")
	for _, name := range []string{listener, dialer} {
		if out, err := exec.Command("go", "build", "-o", folder, "./"+name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	first := exec.CommandContext(t.Context(), filepath.Join(folder, listener), socket)
	var printed strings.Builder
	first.Stdout, first.Stderr = &printed, &printed
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(socket); err == nil {
			break
		}
	}
	second, err := exec.CommandContext(t.Context(), filepath.Join(folder, dialer), socket).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", dialer, err, second)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", listener, err, printed.String())
	}
	if string(second) != dialed {
		t.Errorf("%s prints %q, want %q", dialer, second, dialed)
	}
	if printed.String() != listened {
		t.Errorf("%s prints %q, want %q", listener, printed.String(), listened)
	}
}
