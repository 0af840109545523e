//go:build !unix

package coretest

import "github.com/dlx-go/dlx/core"

// opaqueCapabilities are what opaque devices have besides those of all.
const opaqueCapabilities = core.CapHostView | core.CapImportStream

// allocExport is not called: there are no descriptors here that could be exported.
func (d *Device) allocExport(size int64, opts core.AllocOptions) (core.Memory, error) {
	return core.Memory{}, d.checkAlloc(size, opts)
}
