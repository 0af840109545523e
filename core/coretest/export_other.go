//go:build !unix

package coretest

import "github.com/dlx-go/dlx/core"

// opaqueCapabilities are the capabilities that only opaque devices have.
const opaqueCapabilities = core.CapHostView | core.CapImportStream

// allocExport is not called: opaque devices do not export memory on this system.
func (d *Device) allocExport(size int64, opts core.AllocOptions) (core.Memory, error) {
	return core.Memory{}, d.checkAlloc(size, opts)
}
