//go:build cuda && !(linux && cgo)

package cuda

import (
	"github.com/dlx-go/dlx/backends/internal/absent"
	"github.com/dlx-go/dlx/core"
)

var none = absent.Backend{Type: core.DeviceCUDA, API: "CUDA"}

// New returns a backend that has no devices and says why.
func New() core.Backend { return none }

func unsupported(call string) error { return none.Unsupported(call) }
