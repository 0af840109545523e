//go:build linux

package codecache_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/rocm/internal/codecache"
)

// get asks a new cache, as another process does, and reports whether it compiled.
func get(t *testing.T, folder, key, code string) (compiled bool) {
	t.Helper()
	c := codecache.New(func() (string, error) {
		if folder == "" {
			return "", errors.New("no folder")
		}
		return folder, nil
	})
	for i := range 2 {
		got, failed := c.Get(key, func() (string, bool) {
			if i == 1 {
				t.Error("compiled again in one process")
			}
			compiled = true
			return code, true
		})
		if failed || got != code {
			t.Errorf("the code is %q, failed %v; want %q", got, failed, code)
		}
	}
	return compiled
}

func TestALaterProcessDoesNotCompile(t *testing.T) {
	folder, key := filepath.Join(t.TempDir(), "new"), codecache.Key("text", "gfx90a", "9.0")
	if !get(t, folder, key, "\x7fELF code") {
		t.Error("the first process did not compile")
	}
	if get(t, folder, key, "\x7fELF code") {
		t.Error("the second process compiled")
	}
	if !get(t, folder, codecache.Key("text", "gfx90a", "9.1"), "other code") {
		t.Error("another version got the same code")
	}
}

func TestABrokenFileIsReplaced(t *testing.T) {
	for name, broken := range map[string]func(data []byte) []byte{
		"empty":   func([]byte) []byte { return nil },
		"short":   func(data []byte) []byte { return data[:len(data)-1] },
		"changed": func(data []byte) []byte { data[len(data)-1] ^= 1; return data },
		"longer":  func(data []byte) []byte { return append(data, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			folder, key := t.TempDir(), codecache.Key(name)
			get(t, folder, key, "code")
			path := filepath.Join(folder, "dlx", "hip", key)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, broken(data), 0o600); err != nil {
				t.Fatal(err)
			}
			if !get(t, folder, key, "code") {
				t.Error("the broken file was used")
			}
			if get(t, folder, key, "code") {
				t.Error("the broken file was not replaced")
			}
		})
	}
}

func TestAFolderOfOthersIsNotUsed(t *testing.T) {
	folder, key := t.TempDir(), codecache.Key("text")
	get(t, folder, key, "code")
	if err := os.Chmod(filepath.Join(folder, "dlx", "hip"), 0o777); err != nil { //nolint:gosec // what is tested
		t.Fatal(err)
	}
	if !get(t, folder, key, "code") {
		t.Error("code was taken from a folder that everybody may write")
	}
}

func TestAPipeIsNotRead(t *testing.T) {
	folder, key := t.TempDir(), codecache.Key("text")
	if err := os.MkdirAll(filepath.Join(folder, "dlx", "hip"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(folder, "dlx", "hip", key), 0o600); err != nil {
		t.Fatal(err)
	}
	if !get(t, folder, key, "code") {
		t.Error("nothing was compiled")
	}
}

func TestWithoutAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"no folder": "", "a file": file} {
		t.Run(name, func(t *testing.T) {
			if !get(t, folder, "key", "code") {
				t.Error("nothing was compiled")
			}
		})
	}
}

func TestRefusedCodeIsNotKept(t *testing.T) {
	c := codecache.New(func() (string, error) { return t.TempDir(), nil })
	for range 2 {
		called := false
		if _, failed := c.Get("key", func() (string, bool) { called = true; return "half", false }); !failed || !called {
			t.Errorf("failed %v, called %v", failed, called)
		}
	}
}

func TestDroppedCodeIsCompiledAgain(t *testing.T) {
	folder, key := t.TempDir(), codecache.Key("text")
	get(t, folder, key, "old")
	c := codecache.New(func() (string, error) { return folder, nil })
	code := func() string {
		code, _ := c.Get(key, func() (string, bool) { return "new", true })
		return code
	}
	for i, want := range []string{"old", "new", "new"} {
		got := code()
		if got != want {
			t.Errorf("Get %d returns %q, want %q", i, got, want)
		}
		if i == 0 {
			c.Drop(key, got)
		}
		c.Drop(key, "old") // what another goroutine got before
	}
	if get(t, folder, key, "new") {
		t.Error("the new code is not in the file")
	}
}

func TestKeysDependOnWhereAPartEnds(t *testing.T) {
	if codecache.Key("a", "bc") == codecache.Key("ab", "c") {
		t.Error("two keys are the same")
	}
}
