package tensorfile

import (
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/private"
)

// privateCore is what core does for this module alone.
var privateCore = private.Core.(interface {
	Loaded(to core.DeviceID, tensors, bytes int64)
	Saved(from core.DeviceID, tensors, bytes int64)
})

// countLoaded counts what was loaded, for [core.ReadMetrics].
func countLoaded(r *LoadReport) { privateCore.Loaded(r.Device, int64(r.Tensors), r.Loaded) }

// countSaved counts what was saved, for [core.ReadMetrics].
func countSaved(tensors map[string]*core.Tensor) {
	for _, t := range tensors {
		privateCore.Saved(t.DeviceID(), 1, t.NumBytes())
	}
}
