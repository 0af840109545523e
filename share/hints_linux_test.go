package share

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// An error says what to do about its cause.
func TestErrorsOfPathsSayWhatToDo(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stale, err := net.ListenUnix(network, &net.UnixAddr{Name: filepath.Join(folder, "stale"), Net: network})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", filepath.Join(folder, "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	long, absent := "/"+strings.Repeat("a", maxPath), filepath.Join(folder, "absent", "socket")
	for path, want := range map[string]string{
		long: "the path has 108 bytes, and may have 107", absent: "make its folder first", filepath.Join(file, "socket"): "choose another path",
	} {
		l, err := Listen(path, Options{})
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Listen(%q): %v, want %q", path, err, want)
		}
		_ = l.Close()
	}
	for path, want := range map[string]string{
		long: "the path has 108 bytes, and may have 107", absent: "start the process that listens there", file: "it is not a socket",
		filepath.Join(folder, "stale"): "has ended: start it again", filepath.Join(folder, "other"): "does not use package share",
	} {
		c, err := Dial(t.Context(), path, Options{})
		if !errors.Is(err, core.ErrClosed) || !strings.Contains(err.Error(), want) {
			t.Errorf("Dial(%q): %v, want %q", path, err, want)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}
