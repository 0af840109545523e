package main

import (
	"runtime/debug"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// tagged are the backends that a build has only with the tag of their name.
var tagged = []string{
	core.DeviceCUDA.BackendName(),
	core.DeviceOpenCL.BackendName(),
	core.DeviceVulkan.BackendName(),
	core.DeviceGL.BackendName(),
}

// notBuilt says why this program lacks a backend, and how a program gets it.
func notBuilt(backend string) string {
	info, _ := debug.ReadBuildInfo() // nil where a build has none
	return notBuiltFrom(info, backend)
}

// notBuiltFrom is notBuilt for a program of which info tells.
func notBuiltFrom(info *debug.BuildInfo, backend string) string {
	if info != nil && slices.Contains(newVersionResult(info, new(core.Registry)).Tags, backend) {
		return "built with the tag " + backend + ", which adds it only on Linux with cgo"
	}
	return "built without the tag " + backend + ": build with -tags " + backend + ", on Linux with cgo"
}

// missing lists the backends that another build of this program has.
func missing(registry *core.Registry) []string {
	return slices.DeleteFunc(slices.Clone(tagged), func(name string) bool {
		_, err := registry.Backend(name)
		return err == nil
	})
}

// checkBuilt fails for a device whose backend is missing in this build.
func (a *app) checkBuilt(ids ...core.DeviceID) error {
	without := missing(a.registry)
	for _, id := range ids {
		if name := id.Type.BackendName(); slices.Contains(without, name) {
			return core.Errorf(core.ErrNotSupported, "dlx", "Open", "%v: this program lacks the backend %s: %s", id, name, notBuilt(name))
		}
	}
	return nil
}
