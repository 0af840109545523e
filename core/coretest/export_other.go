//go:build !unix

package coretest

import "github.com/dlx-go/dlx/core"

// opaqueCapabilities are what opaque devices have besides those of all.
const opaqueCapabilities = core.CapHostView | core.CapImportStream

// newOpaque returns what the callers of an opaque device know. There are no
// descriptors here that it could export.
func newOpaque(d *Device) core.Device { return opaqueDevice{d} }
