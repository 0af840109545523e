//go:build oneapi && linux && cgo

package oneapi

import (
	"github.com/dlx-go/dlx/backends/internal/clcore"
	"github.com/dlx-go/dlx/core"
)

func newBackend() core.Backend { return clcore.OneAPI.Backend() }

func handlesOf(d core.Device) (Handles, error) {
	h, err := clcore.OneAPI.HandlesOf(d)
	return Handles(h), err
}

func wrapContext(context, deviceID uintptr) (core.Device, error) {
	return clcore.OneAPI.Wrap(context, deviceID)
}

func adopt(context, deviceID uintptr) error { return clcore.OneAPI.Adopt(context, deviceID) }

func importEvent(d core.Device, event uintptr) (core.Event, error) {
	return clcore.OneAPI.ImportEvent(d, event)
}
