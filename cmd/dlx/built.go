package main

import (
	"slices"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
)

// notBuilt returns the reason why this program lacks a backend, with the tag that adds it.
func notBuilt(backend string) string {
	if backend == "metal" {
		return "needs macOS: build for that with -tags metal"
	}
	return "built without the tag " + backend + ": build with -tags " + backend + ", on Linux with cgo"
}

// missing returns the backends that are not in this build.
func missing(registry *core.Registry) []string {
	return slices.DeleteFunc(all.Tags(), func(name string) bool {
		_, err := registry.Backend(name)
		return err == nil
	})
}

// checkBuilt returns an error if the backend of a device is not in this build.
func (a *app) checkBuilt(ids ...core.DeviceID) error {
	without := missing(a.registry)
	for _, id := range ids {
		if name := id.Type.BackendName(); slices.Contains(without, name) {
			return core.Errorf(core.ErrNotSupported, "dlx", "Open", "%v: this program lacks the backend %s: %s", id, name, notBuilt(name))
		}
	}
	return nil
}
