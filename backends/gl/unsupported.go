//go:build gl && !(linux && cgo)

package gl

import (
	"github.com/dlx-go/dlx/backends/internal/absent"
	"github.com/dlx-go/dlx/core"
)

var none = absent.Backend{Type: core.DeviceGL, API: "OpenGL"}

// New returns a backend that has no devices and says why.
func New() core.Backend { return none }

// Wrap fails with core.ErrNotSupported.
func Wrap(func(func())) (core.Device, error) { return nil, unsupported("Wrap") }

// NewContext fails with core.ErrNotSupported.
func NewContext(core.DeviceID) (destroy func(), err error) { return nil, unsupported("NewContext") }

func unsupported(call string) error { return none.Unsupported(call) }
