//go:build ucx && linux && cgo

package remote

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// A mapped file that was truncated before somebody asks for its elements ends the request, and not the process.
func TestAnOfferedFileThatWasTruncated(t *testing.T) {
	const size = 2 * pieceBytes
	d := host(t)
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mapped, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mapped) }) // when the connection is closed, and UCX reads nothing
	x, err := core.FromSlice(mapped, 8, size/8)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	a, b := connect(t, Options{})
	f, err := a.Offer(x, OfferOptions{Writable: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, pieceBytes+1); err != nil { // the rest of the page stays
		t.Fatal(err)
	}
	for _, stop := range []int64{1, 4, 5, 8} {
		y, _, err := b.FetchRows(t.Context(), f.Descriptor(), 0, stop, d)
		if there := stop <= 4; (err == nil) != there || !there && (!errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "truncated")) {
			t.Errorf("%d rows: %v", stop, err)
		}
		_ = y.Close()
	}
	y := row(t, size, 1)
	z, err := y.Reshape(8, size/8)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if _, err := b.Put(t.Context(), f.Descriptor(), z); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("Put: %v", err)
	}
}
