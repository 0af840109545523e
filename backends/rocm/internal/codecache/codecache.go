//go:build linux

// Package codecache keeps machine code that was compiled at run time: in memory, and in files for later processes.
package codecache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/dlx-go/dlx/internal/atomicfile"
)

// Cache keeps code. It is safe for concurrent use.
type Cache struct {
	folder func() (string, error)
	mu     sync.Mutex // held while code is compiled, so that nobody compiles the same text meanwhile
	code   map[string]string
}

// New returns a cache with files in the folder "dlx/hip" of a folder, such as [os.UserCacheDir]. Without such a folder, if it
// cannot be written, or if other users may write there, the cache has no files.
func New(folder func() (string, error)) *Cache {
	return &Cache{folder: folder, code: make(map[string]string)}
}

// Key returns the name of code, which depends on all of the parts.
func Key(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		sum := sha256.Sum256([]byte(p))
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Get returns the code with a key, which compile makes if there is none. Code that compile refuses is not kept, and
// failed is true.
func (c *Cache) Get(key string, compile func() (code string, ok bool)) (code string, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if code, ok := c.code[key]; ok {
		return code, false
	}
	path := c.path(key)
	code, ok := read(path)
	if !ok {
		if code, ok = compile(); !ok {
			return "", true
		}
		write(path, code)
	}
	c.code[key] = code
	return code, false
}

// Drop forgets code, in memory and in the file. Get compiles it again. If another goroutine has replaced the code already, that stays.
func (c *Cache) Drop(key, code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, ok := c.code[key]; ok && kept != code {
		return
	}
	delete(c.code, key)
	if path := c.path(key); path != "" {
		_ = os.Remove(path)
	}
}

// path returns the file for a key, "" if there is no folder.
func (c *Cache) path(key string) string {
	folder, err := c.folder()
	if err != nil {
		return ""
	}
	folder = filepath.Join(folder, "dlx", "hip")
	if os.MkdirAll(folder, 0o700) != nil || !ours(folder) {
		return ""
	}
	return filepath.Join(folder, key)
}

// ours reports whether nobody else, apart from root, can put files into a folder: their code would run on the device.
func ours(folder string) bool {
	info, err := os.Stat(folder)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}

// read reads a file, which begins with the checksum of the code. A file that is not whole is as good as none, and so is
// anything but a file: a pipe would have no end.
func read(path string) (code string, ok bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	data, err := os.ReadFile(path)
	if err != nil || len(data) < sha256.Size {
		return "", false
	}
	code = string(data[sha256.Size:])
	return code, sha256.Sum256([]byte(code)) == [sha256.Size]byte(data)
}

// write writes a file that read accepts. Errors are ignored: the next process compiles again.
func write(path, code string) {
	if path == "" {
		return
	}
	sum := sha256.Sum256([]byte(code))
	_ = atomicfile.Write(context.Background(), path, func(w io.Writer) error {
		_, err := io.Copy(w, strings.NewReader(string(sum[:])+code))
		return err
	})
}
