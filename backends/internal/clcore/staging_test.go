//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// A tensor that repeats elements may need more memory for its copy than there is.
func TestPackingWhatNoMemoryHolds(t *testing.T) {
	one := coretest.Keep(t)(core.FromSlice([]uint8{1}, 1, 1))
	large := coretest.Keep(t)(one.Broadcast(1<<31, 1<<31))
	_, err := (&device{location: location{API: OpenCL}}).packed(t.Context(), large, false)
	coretest.WantError(t, err, core.ErrOutOfMemory, "packed")
}
