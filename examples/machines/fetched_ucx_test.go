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
func TestAModelIsFetched(t *testing.T) {
	coretest.BuildsProgram(t)
	folder := t.TempDir()
	for _, name := range []string{"offer", "fetch"} {
		if out, err := exec.Command("go", "build", "-tags", "ucx", "-o", folder, "./"+name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	token, other := filepath.Join(folder, "token"), filepath.Join(folder, "other")
	for path, text := range map[string]string{token: "0123456789abcdef\n", other: "fedcba9876543210\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	offer := exec.CommandContext(t.Context(), filepath.Join(folder, "offer"), "127.0.0.1:0", token, "../../testdata/digits.safetensors")
	offer.Stderr = os.Stderr
	stdout, err := offer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := offer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = offer.Process.Kill()
		_ = offer.Wait()
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "offering at ")
	if err != nil || !ok {
		t.Fatalf("offer prints %q: %v", line, err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(folder, "fetch"), address, token, "mean*").CombinedOutput()
	const want = "mean float32[10 8 8] on cpu\nmean_bfloat bfloat16[10 8 8] on cpu\nmean_half float16[10 8 8] on cpu\n"
	if err != nil || string(out) != want {
		t.Errorf("fetch: %v\n%swant\n%s", err, out, want)
	}
	out, err = exec.CommandContext(t.Context(), filepath.Join(folder, "fetch"), address, other, "*").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another token") {
		t.Errorf("fetch with another secret: %v\n%s", err, out)
	}
}
