package main

import (
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/inventory"
)

// checkBuilt returns an error if the backend of a device is not in this build.
func (a *app) checkBuilt(ids ...core.DeviceID) error {
	without := inventory.Missing(a.registry)
	for _, id := range ids {
		if name := id.Type.BackendName(); slices.Contains(without, name) {
			return core.Errorf(core.ErrNotSupported, "dlx", "Open", "%v: this program lacks the backend %s: %s", id, name, inventory.NotBuilt(name))
		}
	}
	return nil
}
