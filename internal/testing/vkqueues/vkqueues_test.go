package vkqueues

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// skipped is what a recorder panics with.
type skipped string

// recorder is a test that does not end where it would be skipped.
type recorder struct{ testing.TB }

func (recorder) Skip(args ...any) { panic(skipped(fmt.Sprint(args...))) }

func (recorder) Skipf(format string, args ...any) { panic(skipped(fmt.Sprintf(format, args...))) }

// use calls Use, and returns why it skips the test, if it does.
func use(t *testing.T) (why string) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			text, ok := r.(skipped)
			if !ok {
				panic(r)
			}
			why = string(text)
		}
	}()
	Use(recorder{t})
	return ""
}

// A compiler that is not GCC finds the headers only where CGO_CFLAGS says.
func TestUseSkipsWithoutHeaders(t *testing.T) {
	folder := t.TempDir()
	const cc = "#!/bin/sh\ncase \" $* \" in *' -I/headers '*) exit 0 ;; esac\n" +
		"echo \"fatal error: 'vulkan/vk_layer.h' file not found\" >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(folder, "cc"), []byte(cc), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	t.Setenv("CGO_CFLAGS", "-g -O2")
	if why := use(t); !strings.Contains(why, "libvulkan-dev") || !strings.Contains(why, "file not found") {
		t.Errorf("without headers: skipped because of %q", why)
	}
	t.Setenv("CGO_CFLAGS", "-g -I/headers")
	if why := use(t); why != "" {
		t.Errorf("with headers: skipped because of %q", why)
	}
	t.Setenv("PATH", t.TempDir())
	if why := use(t); !strings.Contains(why, "C compiler") {
		t.Errorf("without a compiler: skipped because of %q", why)
	}
}
