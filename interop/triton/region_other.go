//go:build !linux

package triton

import "github.com/dlx-go/dlx/core"

const (
	hasShared     = false
	defaultFolder = ""
)

// file is never made on this system.
type file struct{}

func newFile(string, int64) (*file, error) {
	return nil, core.Errorf(core.ErrNotSupported, backend, "shm_open", "shared memory by name is for Linux")
}

func (f *file) name() string               { return "" }
func (f *file) reserve(int64, int64) error { return nil }
func (f *file) base() uintptr              { return 0 }
func (f *file) unlink()                    {}
func (f *file) close()                     {}

func sweep(string) []string { return nil }
