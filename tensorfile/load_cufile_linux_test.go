package tensorfile_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// dropFromCache drops a file from the page cache, as far as its file system does.
func dropFromCache(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := errors.Join(file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
		t.Fatal(err)
	}
}
