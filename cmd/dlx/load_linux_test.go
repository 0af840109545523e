package main

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe is refused. Nothing waits for somebody who writes to it.
func TestTheCacheOfAPipeIsNotDropped(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "x.safetensors")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no pipes here: %v", err)
	}
	if how, err := dropCache([]string{pipe}); err == nil {
		t.Errorf("dropped by %s", how)
	}
}
