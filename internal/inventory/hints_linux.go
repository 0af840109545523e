package inventory

import (
	"debug/elf"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Hints returns the usual mistakes that it finds on this machine, nil if there are none. The list is that of List: what
// works needs no hint. It opens device files, and closes them.
func Hints(list []Backend) []Hint {
	m := &machine{root: "/", env: os.Getenv, open: openDevice, group: groupOf, needs: linkedWith, memlock: -1, backends: list}
	m.container = m.inContainer()
	var shm unix.Statfs_t
	if unix.Statfs("/dev/shm", &shm) == nil {
		m.shm = int64(shm.Blocks) * shm.Bsize
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil && limit.Cur < 1<<62 && os.Geteuid() != 0 {
		m.memlock = int64(limit.Cur)
	}
	return m.hints()
}

func openDevice(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err.(*os.PathError).Err //nolint:errorlint // OpenFile returns this type
	}
	return file.Close()
}

// linkedWith returns the names of the libraries that a library needs, nil if it cannot be read.
func linkedWith(path string) []string {
	file, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	names, _ := file.ImportedLibraries() // nil if it fails
	return names
}

func groupOf(path string) string {
	var status unix.Stat_t
	if unix.Stat(path, &status) != nil {
		return "of its owner"
	}
	return strconv.FormatUint(uint64(status.Gid), 10)
}
