package tensorfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
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

// Reading the header reads little besides.
func TestTheHeaderIsReadAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := tensorfile.WriteFile(t.Context(), path, []tensorfile.Named{{Name: "x", Tensor: filled(t, core.TypeFloat32, 4<<20)}}, tensorfile.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := errors.Join(file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
		t.Fatal(err)
	}
	var before unix.Cachestat_t
	if err := unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{}, &before, 0); err != nil {
		t.Skipf("the system does not tell what is in the page cache: %v", err)
	}
	if before.Cache > 0 {
		t.Skipf("%d pages stay in the page cache of this file system", before.Cache)
	}
	l := load(t, path, openHost(t), tensorfile.LoadOptions{})
	if f := l.Report.Files[0]; f.Cached > 0.05 || f.Read == tensorfile.ReadMap {
		t.Errorf("%+v", f)
	}
}

// A long header that is not in the page cache is read past it.
func TestALongHeaderIsReadPastThePageCache(t *testing.T) {
	x := filled(t, core.TypeFloat32, 256)
	tensors := make([]tensorfile.Named, 4000)
	for i := range tensors {
		tensors[i] = tensorfile.Named{Name: fmt.Sprintf("model.layers.%d.weight", i), Tensor: x}
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := tensorfile.WriteFile(t.Context(), path, tensors, tensorfile.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := errors.Join(file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
		t.Fatal(err)
	}
	header := unix.CachestatRange{Off: 0, Len: 256 << 10}
	var before, after unix.Cachestat_t
	if err := unix.Cachestat(uint(file.Fd()), &header, &before, 0); err != nil {
		t.Skipf("the system does not tell what is in the page cache: %v", err)
	}
	if before.Cache > 0 {
		t.Skipf("%d pages stay in the page cache of this file system", before.Cache)
	}
	d := openHost(t)
	l := load(t, path, d, tensorfile.LoadOptions{Read: tensorfile.ReadDirect})
	if err := unix.Cachestat(uint(file.Fd()), &header, &after, 0); err != nil {
		t.Fatal(err)
	}
	if l.Report.Files[0].Read == tensorfile.ReadDirect && after.Cache > 16 {
		t.Errorf("%d of 64 pages of the header are in the page cache", after.Cache)
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
