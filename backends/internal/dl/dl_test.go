package dl_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/core"
)

// open opens the C library's mathematics, which is everywhere, or skips the test
// where no library can be opened at all.
func open(t *testing.T) *dl.Library {
	t.Helper()
	l, err := dl.Open("test", "libdlx-which-nobody-has.so", "libm.so.6", "libc.so.6")
	if _, bad := dl.Open("test"); err != nil && strings.Contains(bad.Error(), "this build") {
		if !errors.Is(err, core.ErrNotSupported) {
			t.Fatalf("error %v, want %q", err, core.ErrNotSupported)
		}
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestTheFirstNameThatLoadsIsTaken(t *testing.T) {
	if name := open(t).Name(); name != "libm.so.6" {
		t.Errorf("opened %q, want libm.so.6", name)
	}
}

func TestAMissingLibraryIsAReason(t *testing.T) {
	open(t)
	_, err := dl.Open("test", "libdlx-a.so", "/nowhere/libdlx-b.so")
	var typed *core.Error
	if !errors.Is(err, core.ErrNotSupported) || !errors.As(err, &typed) || typed.Backend != "test" || typed.Call != "dlopen" {
		t.Fatalf("error %v, want %q by test: dlopen", err, core.ErrNotSupported)
	}
	for _, want := range []string{"libdlx-a.so", "/nowhere/libdlx-b.so", "No such file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	for _, name := range []string{"", "libm\x00.so"} {
		if _, err := dl.Open("test", name); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("Open(%q): error %v, want %q", name, err, core.ErrInvalid)
		}
	}
}

func TestResolve(t *testing.T) {
	l := open(t)
	var cos, none uintptr
	none = 1
	table := []dl.Symbol{{Name: "cos", Address: &cos}, {Name: "dlx_none", Address: &none, Optional: true}}
	if err := l.Resolve(table); err != nil {
		t.Fatal(err)
	}
	if cos == 0 || cos != l.Lookup("cos") || none != 0 {
		t.Errorf("cos lies at %#x, what is missing at %#x", cos, none)
	}
	err := l.Resolve([]dl.Symbol{{Name: "dlx_none", Since: "9.3", Address: &none}})
	if !errors.Is(err, core.ErrVersion) {
		t.Fatalf("error %v, want %q", err, core.ErrVersion)
	}
	for _, want := range []string{l.Name(), "dlx_none", "9.3"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

func TestAClosedLibraryHasNoSymbols(t *testing.T) {
	l := open(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			l.Lookup("cos")
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if p := l.Lookup("cos"); p != 0 {
		t.Errorf("a closed library has cos at %#x", p)
	}
}
