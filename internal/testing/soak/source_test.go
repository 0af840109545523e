package soak

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/dlpack"
)

// What is printed of a program is Go that runs, and does what the program did.
func TestSourceRuns(t *testing.T) {
	coretest.BuildsProgram(t)
	ctx := t.Context()
	devices, err := openWorld()
	if err != nil {
		t.Skipf("the drivers are not here, as TestPrograms tells: %v", err)
	}
	t.Cleanup(func() {
		dlpack.Flush()
		for _, d := range devices {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	// The ones that a program opens by name.
	var names []string
	var world []*Device
	for _, d := range devices {
		if d.ID() == core.CPU {
			names, world = append(names, d.Name), append(world, d)
		}
	}
	// Below the root of the module, whose internal packages it uses.
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("testdata", "programs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.RemoveAll(folder)
		_ = os.Remove("testdata")
	})
	args := []string{"vet"}
	for seed := uint64(1); seed <= 8; seed++ {
		w := &World{Devices: world, Cover: NewCoverage(), Timeout: time.Minute}
		peer, endPeer, err := startPeer(world)
		if err != nil {
			t.Fatal(err)
		}
		w.Peer = peer
		traces := t.TempDir()
		j := Job{Seed: seed, Traces: traces}
		var said strings.Builder
		if !j.Run(w, &said) {
			t.Fatal(said.String())
		}
		if err := endPeer(); err != nil {
			t.Error(err)
		}
		source, err := Source(traces, names, seed)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(folder, "p"+string(rune('0'+seed)), "main.go")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, "./"+filepath.Dir(file))
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go vet: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(ctx, "go", "run", "-tags=", args[1]).CombinedOutput()
	if err != nil {
		t.Fatalf("go run: %v\n%s", err, out)
	}
}
