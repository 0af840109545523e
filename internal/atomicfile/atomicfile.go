// Package atomicfile writes files that appear under their names only when they are
// whole.
package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// Write has fill write a new file, and gives it the name path when it is whole and
// on the disk. After an error, or a panic of fill, nothing of it is left, and a file
// that was there is as it was.
//
// A file that was there is replaced. The new one has its permissions and, as far as
// the process may give them, its owner and group; access control lists and extended
// attributes are not carried over. A hard link to the old file, and whoever has it
// open, keeps the old content. A symbolic link stays: what it leads to is replaced,
// or made. Everything else that has a name is left alone: Write fails with an
// [*IrregularError] on a directory, a pipe, a socket, a device, and on what leads to an
// open descriptor, as /dev/stdout does: whoever has the file open would keep the old one.
//
// The writer that fill gets fails with the error of ctx once that has ended.
func Write(ctx context.Context, path string, fill func(io.Writer) error) error {
	p, err := Begin(ctx, path, fill)
	if err != nil {
		return err
	}
	return p.Commit()
}

// Pending is a file that is whole and on the disk, and has not got its name yet.
type Pending struct{ file, path string }

// Begin is [Write], except that the file gets its name by Commit. The caller calls Commit or Discard. Several files can
// so be written before the first one is replaced.
func Begin(ctx context.Context, path string, fill func(io.Writer) error) (*Pending, error) {
	t, err := find(path)
	if err != nil {
		return nil, err
	}
	file, err := t.create()
	if err != nil {
		return nil, err
	}
	whole := false
	defer func() {
		if !whole {
			_ = file.Close()           // the error that led here says more
			_ = os.Remove(file.Name()) // likewise
		}
	}()
	if err := fill(writer{ctx, file}); err != nil {
		return nil, err
	}
	if err := file.Sync(); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	whole = true
	return &Pending{file.Name(), t.path}, nil
}

// Commit gives the file its name. If that fails, nothing of the file is left.
func (p *Pending) Commit() error {
	err := os.Rename(p.file, p.path)
	if err != nil {
		p.Discard()
	}
	return err
}

// Discard removes the file.
func (p *Pending) Discard() { _ = os.Remove(p.file) } // the error that led here says more

// Check fails as [Write] would before it calls fill, so that long work need not be
// done in vain. It leaves nothing behind.
func Check(path string) error {
	t, err := find(path)
	if err != nil {
		return err
	}
	file, err := t.create()
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// IrregularError says that a path names something that a file must not replace.
type IrregularError struct {
	Path string
	Mode fs.FileMode // of what is there
	Open bool        // the path leads to an open descriptor, as /dev/stdout does
}

var _ error = (*IrregularError)(nil)

// Error names what is there.
func (e *IrregularError) Error() string {
	kind := "no regular file"
	switch e.Mode.Type() {
	case 0:
		kind = "a file that has lost its name"
		if e.Open {
			kind = "a file that is open already"
		}
	case fs.ModeDir:
		kind = "a directory"
	case fs.ModeNamedPipe:
		kind = "a pipe"
	case fs.ModeSocket:
		kind = "a socket"
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		kind = "a device"
	}
	return fmt.Sprintf("%s is %s, which is not replaced by a file: name another path", e.Path, kind)
}

// target is where a file shall appear.
type target struct {
	path string      // no symbolic link
	old  fs.FileInfo // of the regular file that is there, nil if there is none
}

// find follows the links of path and looks at what is there.
func find(path string) (target, error) {
	t := target{path: path}
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	var descriptor bool
	if t.path, descriptor, err = follow(path); err != nil || info == nil {
		return t, err
	}
	// A descriptor under /proc may stand for a file that no name leads to.
	named, err := os.Lstat(t.path)
	if descriptor || !info.Mode().IsRegular() || err != nil || !os.SameFile(info, named) {
		return t, &IrregularError{path, info.Mode(), descriptor}
	}
	t.old = info
	return t, nil
}

// maxLinks bounds a chain of symbolic links, as systems do.
const maxLinks = 40

// follow returns what a chain of symbolic links leads to, which need not be there, and
// whether one of them stands for an open descriptor.
// Nothing is cleaned from a path: "link/.." is not where the link stands.
func follow(path string) (end string, descriptor bool, err error) {
	end = path
	for range maxLinks {
		next, err := os.Readlink(end)
		if err != nil {
			return end, descriptor, nil //nolint:nilerr // no link; whatever else is wrong shows when it is used
		}
		descriptor = descriptor || isDescriptor(end)
		if !filepath.IsAbs(next) {
			folder, _ := filepath.Split(end)
			next = folder + next
		}
		end = next
	}
	return "", false, &fs.PathError{Op: "readlink", Path: path, Err: errors.New("too many symbolic links")}
}

// descriptors are the folders in which Linux shows the descriptors of a process as links.
var descriptors = regexp.MustCompile(`^/proc/[0-9]+/(task/[0-9]+/)?fd$`)

// isDescriptor reports whether a link stands for an open descriptor.
func isDescriptor(link string) bool {
	folder, _ := filepath.Split(link)
	folder, err := filepath.EvalSymlinks(folder)
	return err == nil && descriptors.MatchString(folder)
}

// create opens a new file in the folder of the target, as it shall be but for its
// name. The caller removes or renames it.
func (t target) create() (*os.File, error) {
	mode := fs.FileMode(0o666) // less the process's mask
	if t.old != nil {
		mode = 0o600 // what the old file kept secret is not shown meanwhile
	}
	folder, _ := filepath.Split(t.path)
	for {
		// The name is short: that of the target may be as long as the system allows.
		name := folder + ".dlx-" + strconv.FormatUint(uint64(rand.Uint32()), 36) + ".tmp"
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("%s: no file can be made in its folder: %w", t.path, errors.Unwrap(err))
		}
		if t.old != nil {
			adopt(file, t.old)
		}
		return file, nil
	}
}

// maxPiece is how much is written between two looks at the context.
const maxPiece = 16 << 20

// writer is a file that can be written to until ctx ends.
type writer struct {
	ctx  context.Context
	file *os.File
}

// Write implements io.Writer.
func (w writer) Write(p []byte) (n int, err error) {
	for {
		if err := w.ctx.Err(); err != nil {
			return n, err
		}
		piece := p[n:min(len(p), n+maxPiece)]
		written, err := w.file.Write(piece)
		if n += written; err != nil || n == len(p) {
			return n, err
		}
	}
}
