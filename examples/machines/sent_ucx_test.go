//go:build ucx && linux && cgo

package machines

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/tensorfile"
)

// The receiver writes the tensors that the sender has read.
func TestAModelIsSent(t *testing.T) {
	coretest.BuildsProgram(t)
	folder := t.TempDir()
	for _, name := range []string{"receive", "send"} {
		if out, err := exec.Command("go", "build", "-tags", "ucx", "-o", folder, "./"+name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	var model []tensorfile.Named
	for _, name := range []string{"a", "b"} {
		x, err := core.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		model = append(model, tensorfile.Named{Name: name, Tensor: x})
	}
	sent, received := filepath.Join(folder, "sent.safetensors"), filepath.Join(folder, "received.safetensors")
	if err := tensorfile.WriteFile(t.Context(), sent, model, tensorfile.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	start := func(name string, args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), filepath.Join(folder, name), args...)
		c.Env = append(os.Environ(), "TOKEN=a token of sixteen bytes")
		c.Stderr = os.Stderr
		return c
	}
	receiver := start("receive", "127.0.0.1:0", received)
	out, err := receiver.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := start("send", strings.TrimSpace(address), sent).Run(); err != nil {
		t.Error(err)
	}
	if err := receiver.Wait(); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(sent)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(received)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes were received, and not the %d that were sent", len(got), len(want))
	}
}
