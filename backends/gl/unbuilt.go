//go:build !(gl && linux && cgo)

package gl

import (
	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/core"
)

// What the API calls where the backend is not built.

func newBackend() core.Backend { return unbuilt.Backend("gl") }

func wrap(func(func())) (core.Device, error) { return nil, unbuilt.Error("gl", "Wrap") }

func cardOf(func(func())) (Card, error) { return Card{}, unbuilt.Error("gl", "CardOf") }

func newContext(core.DeviceID) (destroy func(), err error) {
	return nil, unbuilt.Error("gl", "NewContext")
}
