package core_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// A duplicate is the same file, and programs that are started do not inherit it.
func TestADuplicateIsTheSameFile(t *testing.T) {
	coretest.CheckNoLeaks(t)
	f, err := os.Create(filepath.Join(t.TempDir(), "memory"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := dup(f)
	if err != nil {
		t.Fatal(err)
	}
	h, err := backendkit.NewHandle(core.HandleMemFD, fd)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	d, err := h.Duplicate()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	number, err := d.Number()
	if err != nil {
		t.Fatal(err)
	}
	if !inherited(t, fd) || inherited(t, number) {
		t.Error("the duplicate is inherited, or the test does not see what is")
	}
	one, two := core.ExternalMemory{Handle: h}.Backing(), core.ExternalMemory{Handle: d}.Backing()
	if one == nil || two == nil || *one != *two {
		t.Errorf("the files are %+v and %+v", one, two)
	}
	if err := d.Close(); err != nil || (core.ExternalMemory{Handle: d}).Backing() != nil {
		t.Errorf("a closed handle has a file: %v", err)
	}
}

// dup returns a second descriptor of a file, which programs that are started inherit.
func dup(f *os.File) (uintptr, error) {
	fd, err := syscall.Dup(int(f.Fd()))
	return uintptr(fd), err
}

// inherited reports whether programs that are started inherit a descriptor.
func inherited(t *testing.T, fd uintptr) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		t.Fatal(err)
	}
	_, flags, _ := strings.Cut(string(text), "flags:")
	n, err := strconv.ParseUint(strings.Fields(flags)[0], 8, 32)
	if err != nil {
		t.Fatal(err)
	}
	return n&syscall.O_CLOEXEC == 0
}
