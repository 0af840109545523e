package dltest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

//go:embed testdata/hijack.c
var source []byte

// LibraryVariable names the environment variable whose value is the library to which a hijacker passes calls
// on.
const LibraryVariable = "DLX_HIJACKED_LIBRARY"

// Hijack compiles a library with the name file, in a folder of the test, and returns its path. Calls are
// passed on to the library that LibraryVariable names. The functions in taking, and loading the library,
// replace the process's signal handlers; the functions in others do not. vkGetInstanceProcAddr and
// eglGetProcAddress return the library's own functions if they are listed.
func Hijack(tb testing.TB, file string, taking, others []string) string {
	tb.Helper()
	folder := tb.TempDir()
	var calls strings.Builder
	calls.WriteString("#define HIJACK_CALLS(X)")
	for takes, list := range [][]string{others, taking} {
		for _, name := range list {
			fmt.Fprintf(&calls, " X(%s, %d)", name, takes)
		}
	}
	calls.WriteString("\n")
	path := filepath.Join(folder, file)
	for name, text := range map[string][]byte{"hijack.c": source, "calls.h": []byte(calls.String())} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	out, err := exec.Command("cc", "-shared", "-fPIC", "-o", path, filepath.Join(folder, "hijack.c"), "-ldl").CombinedOutput()
	if err != nil {
		tb.Fatalf("cc: %v: install a C compiler (Debian: build-essential)\n%s", err, out)
	}
	return path
}

// System returns the path at which the C compiler finds a system library, as LibraryVariable needs it.
func System(tb testing.TB, name string) string {
	tb.Helper()
	out, err := exec.Command("cc", "-print-file-name="+name).Output()
	path := strings.TrimSpace(string(out))
	if err != nil || !filepath.IsAbs(path) {
		tb.Fatalf("the C compiler finds no %s: %v", name, err)
	}
	return path
}

// WantPanic fails the test unless a nil dereference is a panic of Go. If a driver handles the signal, the
// process ends.
func WantPanic(tb testing.TB, after string) {
	tb.Helper()
	defer func() {
		if _, ok := recover().(runtime.Error); !ok {
			tb.Errorf("a nil dereference after %s is not a panic", after)
		}
	}()
	none.n++
}

var none *struct{ n int }

// WantPanics opens a device, lets it transpose by its own kernel, and closes it. After each of these a nil
// dereference must be a panic of Go.
func WantPanics(tb testing.TB, open func() core.Device) {
	tb.Helper()
	d := open()
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
		WantPanic(tb, "closing the device")
	})
	WantPanic(tb, "opening the device")
	const n = 50
	src := coretest.Row(tb, d, n*n, core.AllocOptions{})
	dst := coretest.Row(tb, d, n*n, core.AllocOptions{})
	content := coretest.Pattern(n*n, 1)
	coretest.Put(tb, d, src, content)
	keep := coretest.Keep(tb)
	if err := d.Copy(tb.Context(), nil, keep(dst.Reshape(n, n)), keep(keep(src.Reshape(n, n)).Transpose())); err != nil {
		tb.Fatal(err)
	}
	WantPanic(tb, "a strided copy")
	for i, b := range coretest.Get(tb, d, dst) {
		if b != content[i%n*n+i/n] {
			tb.Fatalf("byte %d of the copy is wrong", i)
		}
	}
}
