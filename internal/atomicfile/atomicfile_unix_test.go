//go:build unix

package atomicfile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/internal/atomicfile"
)

// content makes the fill of a file.
func content(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// put makes a file that the test begins with.
func put(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// wantFile fails the test unless a file has a content.
func wantFile(t *testing.T, path, text string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("%q holds %q, %v; want %q", path, got, err, text)
	}
}

// wantOnly fails the test unless a folder holds exactly these names, which are sorted.
func wantOnly(t *testing.T, folder string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	if !slices.Equal(found, names) {
		t.Errorf("the folder holds %q, want %q", found, names)
	}
}

func TestAReplacedFileKeepsItsPermissions(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o444, 0o755, 0o666} {
		path := filepath.Join(t.TempDir(), "x")
		put(t, path, "old", mode)
		if err := atomicfile.Write(t.Context(), path, content("new")); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != mode {
			t.Errorf("%v has become %v", mode, info.Mode())
		}
		if os.Getuid() == 0 || mode&0o400 != 0 {
			wantFile(t, path, "new")
		}
	}
}

func TestAReplacedFileKeepsItsOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give files away")
	}
	path := filepath.Join(t.TempDir(), "x")
	put(t, path, "old", 0o640)
	if err := os.Chown(path, 4711, 4712); err != nil {
		t.Skipf("this file system has no owners: %v", err)
	}
	if err := atomicfile.Write(t.Context(), path, content("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 4711 || s.Gid != 4712 || info.Mode() != 0o640 {
		t.Errorf("owner %d, group %d, %v", s.Uid, s.Gid, info.Mode())
	}
}

func TestANewFileHasTheMaskedPermissions(t *testing.T) {
	folder := t.TempDir()
	plain, err := os.Create(filepath.Join(folder, "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	want, err := plain.Stat()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "x")
	if err := atomicfile.Write(t.Context(), path, content("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Stat(path); err != nil || got.Mode() != want.Mode() {
		t.Errorf("%v, %v; os.Create gives %v", got.Mode(), err, want.Mode())
	}
}

func TestASymbolicLinkIsWrittenThrough(t *testing.T) {
	for _, there := range []bool{true, false} {
		for name, link := range map[string]func(folder string) error{
			"in the same folder": func(folder string) error { return os.Symlink("far", filepath.Join(folder, "x")) },
			"absolute": func(folder string) error {
				return os.Symlink(filepath.Join(folder, "far"), filepath.Join(folder, "x"))
			},
			"by way of another link": func(folder string) error {
				return errors.Join(os.Symlink("y", filepath.Join(folder, "x")), os.Symlink("far", filepath.Join(folder, "y")))
			},
			"by way of a folder that is a link": func(folder string) error {
				// sub leads to other/deep, so that sub/../far is other/far.
				return errors.Join(
					os.MkdirAll(filepath.Join(folder, "other", "deep"), 0o700),
					os.Symlink("other/deep", filepath.Join(folder, "sub")),
					os.Symlink("other/far", filepath.Join(folder, "far")),
					os.Symlink("sub/../far", filepath.Join(folder, "x")),
				)
			},
		} {
			t.Run(fmt.Sprintf("%s, there: %v", name, there), func(t *testing.T) {
				folder := t.TempDir()
				if err := link(folder); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(folder, "x")
				if there {
					if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if err := atomicfile.Check(path); err != nil {
					t.Fatal(err)
				}
				if err := atomicfile.Write(t.Context(), path, content("new")); err != nil {
					t.Fatal(err)
				}
				wantFile(t, path, "new")
				wantFile(t, filepath.Join(folder, "far"), "new")
				if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSymlink {
					t.Errorf("the link has become %v, %v", info.Mode(), err)
				}
			})
		}
	}
	folder := t.TempDir()
	if err := os.Symlink("x", filepath.Join(folder, "x")); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(t.Context(), filepath.Join(folder, "x"), content("new")); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link to itself: %v", err)
	}
	wantOnly(t, folder, "x")
}

func TestAHardLinkKeepsTheOldContent(t *testing.T) {
	folder := t.TempDir()
	path, other := filepath.Join(folder, "x"), filepath.Join(folder, "y")
	put(t, path, "old", 0o600)
	if err := os.Link(path, other); err != nil {
		t.Skipf("this file system has no hard links: %v", err)
	}
	if err := atomicfile.Write(t.Context(), path, content("new")); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "new")
	wantFile(t, other, "old")
}

func TestWhatIsNoFileIsLeftAlone(t *testing.T) {
	folder := t.TempDir()
	makers := map[string]func(path string) error{
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a socket": func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		},
		"a device":                makeDevice,
		"a file without its name": func(path string) error { return lostFile(t, path) },
		"an open file":            func(path string) error { return openedFile(t, path) },
	}
	for kind, make := range makers {
		path := filepath.Join(folder, "x")
		if err := make(path); err != nil {
			t.Logf("%s cannot be made here: %v", kind, err)
			continue
		}
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for call, err := range map[string]error{
			"Write": atomicfile.Write(t.Context(), path, content("new")),
			"Check": atomicfile.Check(path),
		} {
			var irregular *atomicfile.IrregularError
			if !errors.As(err, &irregular) || !strings.Contains(err.Error(), "name another path") {
				t.Errorf("%s of %s: %v", call, kind, err)
			}
		}
		if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s was replaced: %v", kind, err)
		}
		wantOnly(t, folder, "x")
		_ = os.Remove(path)
	}
}

// lostFile makes a link to a file that has no name any more, as /dev/stdout may be.
func lostFile(t *testing.T, path string) error {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		return err
	}
	t.Cleanup(func() { file.Close() })
	descriptor := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	if _, err := os.Stat(descriptor); err != nil {
		return err
	}
	return errors.Join(os.Remove(file.Name()), os.Symlink(descriptor, path))
}

// openedFile makes a link to a file by its descriptor, as /dev/stdout is one.
func openedFile(t *testing.T, path string) error {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		return err
	}
	t.Cleanup(func() { file.Close() })
	descriptor := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	if _, err := os.Stat(descriptor); err != nil {
		return err
	}
	return os.Symlink(descriptor, path)
}

func TestAnyNameThatTheSystemAllows(t *testing.T) {
	for _, name := range []string{strings.Repeat("n", 240), strings.Repeat("n", 255), "caf\xe9", "\xff\xfe", "a\nb", "-"} {
		folder := t.TempDir()
		path := filepath.Join(folder, name)
		file, err := os.Create(path)
		if err != nil {
			t.Logf("%q: not here: %v", name, err)
			continue
		}
		file.Close()
		for range 2 {
			if err := atomicfile.Write(t.Context(), path, content("new")); err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			wantFile(t, path, "new")
			wantOnly(t, folder, name)
			_ = os.Remove(path)
		}
	}
}

func TestAfterAFailureTheOldFileIsThere(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "x")
	put(t, path, "old", 0o600)
	broken := errors.New("broken")
	ended, cancel := context.WithCancel(t.Context())
	for name, write := range map[string]func() error{
		"fill fails": func() error {
			return atomicfile.Write(t.Context(), path, func(w io.Writer) error { return errors.Join(content("half")(w), broken) })
		},
		"fill panics": func() (err error) {
			defer func() { err, _ = recover().(error) }()
			return atomicfile.Write(t.Context(), path, func(w io.Writer) error { panic(broken) })
		},
		"the context ends meanwhile": func() error {
			return atomicfile.Write(ended, path, func(w io.Writer) error {
				if err := content("half")(w); err != nil {
					return err
				}
				cancel()
				if err := content("more")(w); !errors.Is(err, context.Canceled) {
					t.Errorf("writing goes on: %v", err)
				}
				return broken
			})
		},
	} {
		if err := write(); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
		wantFile(t, path, "old")
		wantOnly(t, folder, "x")
	}
	if err := atomicfile.Write(ended, path, func(io.Writer) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	wantFile(t, path, "old")
	wantOnly(t, folder, "x")
}

func TestCheckFindsWhatWriteWouldFind(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "locked"), 0o500); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(folder, "file"), "", 0o600)
	paths := []string{"missing/x", "file/x", strings.Repeat("n", 256)}
	if os.Getuid() != 0 { // who may write everywhere
		paths = append(paths, "locked/x")
	}
	for _, name := range paths {
		path := filepath.Join(folder, name)
		if err := atomicfile.Check(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("Check of %s: %v", name, err)
		}
		if err := atomicfile.Write(t.Context(), path, content("")); err == nil {
			t.Errorf("Write of %s: no error", name)
		}
	}
	for range 2 {
		if err := atomicfile.Check(filepath.Join(folder, "file")); err != nil {
			t.Error(err)
		}
		if err := atomicfile.Check(filepath.Join(folder, "new")); err != nil {
			t.Error(err)
		}
	}
	wantOnly(t, folder, "file", "locked")
}

func TestLargeWritesAreWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	big := strings.Repeat("0123456789abcdef", 40<<20/16+1)
	if err := atomicfile.Write(t.Context(), path, content(big)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != big {
		t.Errorf("%d bytes, %v", len(got), err)
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
