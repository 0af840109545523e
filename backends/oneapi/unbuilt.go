//go:build !(oneapi && linux && cgo)

package oneapi

import (
	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/core"
)

// What the API calls where the backend is not built.

const name = "oneapi"

func newBackend() core.Backend { return unbuilt.Backend(name) }

func handlesOf(core.Device) (Handles, error) { return Handles{}, unbuilt.Error(name, "HandlesOf") }

func wrapContext(_, _ uintptr) (core.Device, error) { return nil, unbuilt.Error(name, "Wrap") }

func adopt(_, _ uintptr) error { return unbuilt.Error(name, "Adopt") }

func importEvent(core.Device, uintptr) (core.Event, error) {
	return nil, unbuilt.Error(name, "ImportEvent")
}
