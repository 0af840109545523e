package coretest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scripts/software-drivers.sh builds a simulated driver again that is older than its source, and only such a one.
func TestSoftwareDriversAreNotOlderThanTheirSource(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("../../scripts/software-drivers.sh")
	if err != nil {
		t.Fatal(err)
	}
	write("scripts/software-drivers.sh", string(script))
	const rules = ".PHONY: system-packages\nsystem-packages:\n\tfalse\n.venv/ready: requirements\n\tfalse\n" +
		".cache/gpusim/libcuda.so.1: source .venv/ready | system-packages\n"
	write("Makefile", rules+"\tcp source $@\n")
	for _, name := range []string{".venv/ready", "requirements", "source"} {
		write(name, "new")
	}
	command := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/software-drivers.sh"), "sh", "-c", `cat "$DLX_CUDA_LIBRARY" 2>/dev/null`)
		cmd.Env = append(os.Environ(), "MAKEFLAGS=n") // as below make -n
		var errors strings.Builder
		cmd.Stderr = &errors
		out, err := cmd.Output()
		return string(out) + errors.String(), err
	}
	const driver = ".cache/gpusim/libcuda.so.1"
	if out, err := command(); err == nil || out != "" {
		t.Errorf("without the driver: %q, %v", out, err)
	}
	write(driver, "old")
	if out, err := command(); err != nil || out != "old" {
		t.Errorf("with a driver that is newer than its source: %q, %v", out, err)
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(root, driver), past, past); err != nil {
		t.Fatal(err)
	}
	if out, err := command(); err != nil || out != "new" {
		t.Errorf("with a driver that is older than its source: %q, %v", out, err)
	}
	if err := os.Chtimes(filepath.Join(root, driver), past, past); err != nil {
		t.Fatal(err)
	}
	write("Makefile", rules+"\tfalse\n")
	if out, err := command(); err == nil || !strings.Contains(out, "make gpusim") {
		t.Errorf("with a source that cannot be built: %q, %v", out, err)
	}
}
