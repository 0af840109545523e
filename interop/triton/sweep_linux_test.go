package triton

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// The variables of the child: the folder of its regions, the target of the server and the model.
const (
	childFolder = "DLX_TRITON_CHILD_FOLDER"
	childTarget = "DLX_TRITON_CHILD_TARGET"
	childModel  = "DLX_TRITON_CHILD_MODEL"
)

// runChild sends a request, reports that on its standard output, and waits to be killed.
func runChild(string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c, err := Dial(os.Getenv(childTarget), Options{folder: os.Getenv(childFolder)})
	if err != nil {
		fail(err)
	}
	x, err := c.Empty(context.Background(), core.TypeFloat32, []int64{100_000})
	if err != nil {
		fail(err)
	}
	if _, err := c.Infer(context.Background(), os.Getenv(childModel), map[string]*core.Tensor{"IN": x}, InferOptions{}); err != nil {
		fail(err)
	}
	fmt.Println("sent")
	time.Sleep(time.Hour)
}

// startChild returns when the child has sent its request. kill kills it, and returns when it has ended.
func startChild(t *testing.T, folder, target, model string) (pid int, kill func()) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childVariable+"=send", childFolder+"="+folder, childTarget+"="+target, childModel+"="+model)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	dead := false
	kill = func() {
		if !dead {
			dead = true
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	}
	t.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "sent\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return command.Process.Pid, kill
}

// The regions of a killed process are removed by the next client, and taken away from the server. Those of a living
// process stay, and so do other files.
func TestRegionsOfKilledProcesses(t *testing.T) {
	f := newFake(t)
	target, _ := f.serveGRPC(t, "localhost:0")
	other := filepath.Join(f.folder, "other")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, kill := startChild(t, f.folder, target, "identity")
	left := files(t, f.folder)
	if len(left) != 2 || f.left() != 1 {
		t.Fatal(left, f.left())
	}
	x := patterned(t, core.TypeUint8, 50_000)
	open := func() *Client {
		c, err := Dial(target, Options{folder: f.folder})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	c := open()
	infer(t, c, "identity", InferOptions{}, map[string]*core.Tensor{"IN": x})
	if now := files(t, f.folder); len(now) != 3 || f.left() != 2 {
		t.Fatalf("the regions of a living process were removed: %v, then %v", left, now)
	}
	kill()
	d := open()
	if now := files(t, f.folder); len(now) != 2 || !slices.Contains(now, "other") {
		t.Fatal("the regions of the killed process were not removed:", now)
	}
	infer(t, d, "identity", InferOptions{}, map[string]*core.Tensor{"IN": x})
	if n := f.left(); n != 2 {
		t.Fatalf("the server has %d regions, want those of two clients", n)
	}
	coretest.WantDescriptors(t, coretest.Descriptors(), "after Dial")
	for _, c := range []*Client{c, d} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if now := files(t, f.folder); len(now) != 1 || f.left() != 0 {
		t.Fatal(now, f.left())
	}
}

// A file that was found without its owner's lock, between its creation and the lock, is given up for another one.
func TestFilesAreLocked(t *testing.T) {
	folder := t.TempDir()
	f, err := newFile(folder, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if removed := sweep(folder); len(removed) != 0 {
		t.Fatal("a file in use was removed")
	}
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	if named, err := f.lock(); err != nil || named {
		t.Fatal("a file without a name is used", err)
	}
	f.close()
	// Links and folders under such names are not files of clients.
	if err := os.Symlink("/etc/passwd", filepath.Join(folder, prefix+"1-x")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, prefix+"1-y"), 0o700); err != nil {
		t.Fatal(err)
	}
	if removed := sweep(folder); len(removed) != 0 || len(files(t, folder)) != 2 {
		t.Fatal("removed:", removed)
	}
}

// An input in a mapped file that was truncated is an error, not the end of the process. Large inputs are copied in pieces.
func TestTruncatedInput(t *testing.T) {
	f := newFake(t)
	c := dial(t, f, "grpc", Options{})
	large := patterned(t, core.TypeUint8, 5<<20+3)
	wantEqual(t, infer(t, c, "identity", InferOptions{}, map[string]*core.Tensor{"IN": large}).Outputs["OUT"], large)
	m, err := newFile(t.TempDir(), 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	x := coretest.Keep(t)(core.Wrap(core.Memory{ID: core.CPU, Handle: m.base(), Size: 8 << 20}, core.Spec{DType: core.TypeUint8, Shape: []int64{8 << 20}}))
	if err := os.Truncate(m.path, 0); err != nil {
		t.Fatal(err)
	}
	_, err = c.Infer(t.Context(), "identity", map[string]*core.Tensor{"IN": x}, InferOptions{})
	coretest.WantError(t, err, core.ErrInvalid, "a file that was truncated")
}
