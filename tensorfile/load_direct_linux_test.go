package tensorfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/tensorfile"
)

func TestReadingPastThePageCache(t *testing.T) {
	path := mixed(t, t.TempDir())
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		t.Skipf("the file system of %s has no O_DIRECT: %v", path, err)
	}
	defer unix.Close(fd)
	if err := unix.Fsync(fd); err != nil {
		t.Fatal(err)
	}
	d := openHost(t)
	l := load(t, path, d, tensorfile.LoadOptions{Read: tensorfile.ReadDirect})
	if f := l.Report.Files[0]; f.Read != tensorfile.ReadDirect || len(l.Report.Refused) > 0 {
		t.Errorf("%+v, %v", f, l.Report.Refused)
	}
	l = load(t, path, d, tensorfile.LoadOptions{})
	if f := l.Report.Files[0]; f.Read != tensorfile.ReadMap && f.Cached > 0.9 {
		t.Errorf("in the page cache, but not mapped: %+v", f)
	}
	// What is not in the page cache is read past it.
	if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	l = load(t, path, d, tensorfile.LoadOptions{})
	if f := l.Report.Files[0]; f.Cached >= 0 && f.Cached < 0.5 && f.Read != tensorfile.ReadDirect {
		t.Errorf("not in the page cache, but mapped: %+v", f)
	}
	checkLoaded(t, path, d, l)
}

func TestAFileSystemThatIsMemory(t *testing.T) {
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skipf("/dev/shm is not a tmpfs: %v", err)
	}
	folder, err := os.MkdirTemp("/dev/shm", "dlx-load-*")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := mixed(t, folder)
	for _, to := range targets {
		d := to.open(t)
		for _, mode := range readModes {
			l := load(t, path, d, tensorfile.LoadOptions{Read: mode})
			checkLoaded(t, path, d, l)
			f := l.Report.Files[0]
			if want := mode == tensorfile.ReadDirect; want != (f.Read == tensorfile.ReadBuffered) || want != (len(l.Report.Refused) == 1) {
				t.Errorf("%q: %+v, %v", mode, f, l.Report.Refused)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "mixed.safetensors")); err != nil {
		t.Error(err)
	}
}
