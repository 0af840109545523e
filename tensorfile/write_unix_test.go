//go:build unix

package tensorfile_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

func TestWriteFileKeepsPermissionsAndLinks(t *testing.T) {
	folder := t.TempDir()
	secret, link := filepath.Join(folder, "secret.npy"), filepath.Join(folder, "link.npy")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("secret.npy", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("made.npy", filepath.Join(folder, "dangling.npy")); err != nil {
		t.Fatal(err)
	}
	tensors := []tensorfile.Named{{Name: "x", Tensor: filled(t, core.TypeInt8, 4)}}
	for _, path := range []string{secret, link, filepath.Join(folder, "dangling.npy")} {
		if err := tensorfile.WriteFile(t.Context(), path, tensors, tensorfile.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]fs.FileMode{"secret.npy": 0o600, "link.npy": fs.ModeSymlink, "dangling.npy": fs.ModeSymlink, "made.npy": 0} {
		info, err := os.Lstat(filepath.Join(folder, name))
		switch {
		case err != nil:
			t.Error(err)
		case info.Mode().Type() != want.Type() || want.Perm() != 0 && info.Mode() != want:
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
		f, err := tensorfile.Open(filepath.Join(folder, name), tensorfile.OpenOptions{})
		if must[*tensorfile.File](t)(f, err); len(f.Tensors()) != 1 {
			t.Errorf("%s: %+v", name, f.Tensors())
		}
	}
}

func TestWriteFileLeavesPipesAndDevicesAlone(t *testing.T) {
	folder := t.TempDir()
	pipe, device := filepath.Join(folder, "pipe.npz"), filepath.Join(folder, "device.npz")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no pipes here: %v", err)
	}
	if err := makeDevice(device); err != nil {
		t.Skipf("no device can be made here: %v", err)
	}
	for path, kind := range map[string]fs.FileMode{pipe: fs.ModeNamedPipe, device: fs.ModeDevice | fs.ModeCharDevice} {
		err := tensorfile.WriteFile(t.Context(), path, nil, tensorfile.WriteOptions{})
		checkError(t, err, tensorfile.NPZ, core.ErrInvalid, "not written")
		if err != nil && !strings.Contains(err.Error(), "name another path") {
			t.Errorf("%v: it does not say what to do", err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Type() != kind {
			t.Errorf("%s has become %v, %v", path, info.Mode(), err)
		}
	}
}

func TestEveryNameThatIsReadIsWritten(t *testing.T) {
	folder := t.TempDir()
	for _, base := range []string{strings.Repeat("n", 240), strings.Repeat("n", 251), "caf\xe9", "\xff\xfe\n\x9b"} {
		tensors := []tensorfile.Named{{Name: base, Tensor: filled(t, core.TypeInt16, 3)}}
		for _, format := range []tensorfile.Format{tensorfile.NPY, tensorfile.NPZ} {
			path := filepath.Join(folder, base+"."+string(format))
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Logf("%q: the file system does not take it: %v", base, err)
				continue
			}
			if err := tensorfile.WriteFile(t.Context(), path, tensors, tensorfile.WriteOptions{}); err != nil {
				t.Errorf("%s, %q: %v", format, base, err)
				continue
			}
			f := must[*tensorfile.File](t)(tensorfile.Open(path, tensorfile.OpenOptions{}))
			checkSame(t, must[*core.Tensor](t)(f.Tensor(base)), tensors[0].Tensor)
		}
	}
	err := tensorfile.Write(t.Context(), io.Discard, tensorfile.Safetensors, []tensorfile.Named{{Name: "\xff", Tensor: filled(t, core.TypeInt16, 3)}}, tensorfile.WriteOptions{})
	checkError(t, err, tensorfile.Safetensors, core.ErrInvalid, ".npz")
}

func TestWriteFileEndsWithItsContext(t *testing.T) {
	folder := t.TempDir()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := tensorfile.WriteFile(ended, filepath.Join(folder, "x.npz"), []tensorfile.Named{{Name: "x", Tensor: filled(t, core.TypeInt8, 4)}}, tensorfile.WriteOptions{})
	var typed *core.Error
	if !errors.Is(err, context.Canceled) || !errors.As(err, &typed) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// makeDevice makes a device at path. The one of the system must not stand in for it where
// a defect could replace that: root can.
func makeDevice(path string) error {
	if os.Geteuid() != 0 {
		return os.Symlink(os.DevNull, path)
	}
	info, err := os.Stat(os.DevNull)
	if err != nil {
		return err
	}
	return syscall.Mknod(path, syscall.S_IFCHR|0o666, int(info.Sys().(*syscall.Stat_t).Rdev))
}
