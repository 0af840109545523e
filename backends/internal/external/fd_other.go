//go:build !linux

package external

import "github.com/dlx-go/dlx/core"

// CheckFD fails: descriptors of memory and semaphores are imported on Linux only.
func (i *Importer) CheckFD(call string, t core.HandleType, fd int, size int64) error {
	return i.errorf(core.ErrNotSupported, call, "handles of type %v are imported on Linux only", t)
}

// CheckExported does nothing: descriptors of memory are exported on Linux only.
func CheckExported(string, string, core.HandleType, int) error { return nil }
