//go:build !linux

package external

import "github.com/dlx-go/dlx/core"

// CheckFD fails: descriptors of memory and semaphores are Linux's.
func (i *Importer) CheckFD(call string, t core.HandleType, fd int, size int64) error {
	return i.errorf(core.ErrNotSupported, call, "descriptors of type %v are imported on Linux only", t)
}

// Give fails as CheckFD does.
func (i *Importer) Give(call string, fd int, give func(fd int) (taken bool, err error)) error {
	return i.CheckFD(call, core.HandleOpaqueFD, fd, 0)
}

// Memory fails as CheckFD does.
func (i *Importer) Memory(m core.ExternalMemory, open func(fd int) (_ core.Memory, taken bool, err error)) (core.Memory, error) {
	return core.Memory{}, i.CheckFD("ImportMemory", m.Type, m.FD, m.Size)
}
