//go:build ucx && linux && cgo

package machines

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// The programs pass the tensors of a file, and a program with another secret gets none.
func TestAModelIsTaken(t *testing.T) {
	coretest.BuildsProgram(t)
	folder := t.TempDir()
	if out, err := exec.Command("go", "build", "-tags", "ucx", "-o", folder, "./give", "./take").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start := func(token, name string, args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), filepath.Join(folder, name), args...)
		c.Env = append(os.Environ(), "TOKEN="+token)
		return c
	}
	const token = "a token of sixteen bytes"
	giving := start(token, "give", "127.0.0.1:0", "../../testdata/digits.safetensors")
	giving.Stderr = os.Stderr
	stdout, err := giving.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := giving.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = giving.Process.Kill()
		_ = giving.Wait()
	}()
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)
	out, err := start(token, "take", address, "mean*").CombinedOutput()
	const want = "mean float32[10 8 8] on cpu\nmean_bfloat bfloat16[10 8 8] on cpu\nmean_half float16[10 8 8] on cpu\n"
	if err != nil || string(out) != want {
		t.Errorf("take: %v\n%swant\n%s", err, out, want)
	}
	out, err = start(token, "take", address).CombinedOutput()
	if lines := strings.Count(string(out), "\n"); err != nil || lines != 9 {
		t.Errorf("take without a glob: %v, and %d tensors instead of 9\n%s", err, lines, out)
	}
	out, err = start("another token of sixteen bytes", "take", address).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another token") {
		t.Errorf("take with another secret: %v\n%s", err, out)
	}
}
