package processes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// docs/share.md shows these programs; what it shows must be what compiles.
func TestTheDocumentationShowsThesePrograms(t *testing.T) {
	page, err := os.ReadFile("../../docs/share.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"receive", "send"} {
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
	coretest.BuildsProgram(t)
	folder := t.TempDir()
	socket := filepath.Join(folder, "socket")
	for _, name := range []string{"receive", "send"} {
		if out, err := exec.Command("go", "build", "-o", folder, "./"+name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	receive := exec.CommandContext(t.Context(), filepath.Join(folder, "receive"), socket)
	var received strings.Builder
	receive.Stdout, receive.Stderr = &received, &received
	if err := receive.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(socket); err == nil {
			break
		}
	}
	sent, err := exec.CommandContext(t.Context(), filepath.Join(folder, "send"), socket).CombinedOutput()
	if err != nil {
		t.Errorf("send: %v\n%s", err, sent)
	}
	if err := receive.Wait(); err != nil {
		t.Errorf("receive: %v\n%s", err, received.String())
	}
	if want := "sent: map, 0 bytes copied\n"; string(sent) != want {
		t.Errorf("send prints %q, want %q", sent, want)
	}
	if want := "received: map, 0 bytes copied: float32[1080 1920] on cpu begins with 42\n"; received.String() != want {
		t.Errorf("receive prints %q, want %q", received.String(), want)
	}
}
