package tensorfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestSaveOnAFullDisk(t *testing.T) {
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	})
	for _, to := range targets {
		d := to.open(t)
		x := coretest.Row(t, d, 700_000, core.AllocOptions{})
		all := map[string]*core.Tensor{"a": x, "b": x}
		for _, options := range []tensorfile.SaveOptions{{}, {MaxShard: 800_000}} {
			_, err := tensorfile.Save(t.Context(), filepath.Join(folder, "x.safetensors"), all, options)
			if !errors.Is(err, unix.ENOSPC) || !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%s: %v", to.name, err)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("%s: left over: %v, %v", to.name, left, err)
			}
		}
	}
}
