//go:build unix

package atomicfile

import (
	"io/fs"
	"os"
	"syscall"
)

// adopt gives a new file, which only its owner may access yet, the owner, group and
// permissions of an old one. What the system refuses is left out, and nobody gets
// more than the old file gave: where the group cannot be kept, the new one may do no
// more than everybody.
func adopt(file *os.File, old fs.FileInfo) {
	mode := old.Mode().Perm()
	if was, ok := old.Sys().(*syscall.Stat_t); ok {
		if file.Chown(int(was.Uid), int(was.Gid)) != nil && file.Chown(-1, int(was.Gid)) != nil {
			mode &= 0o707 | mode<<3&0o070
		}
	}
	_ = file.Chmod(mode) // where a file system refuses that, the owner alone may go on
}
