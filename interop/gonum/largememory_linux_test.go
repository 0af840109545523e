package gonum

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// A copy that the system has no memory for is an error.
func TestMemoryThatTheSystemRefuses(t *testing.T) {
	if !coretest.LimitMemory(t) {
		return
	}
	one := coretest.Keep(t)(core.FromSlice([]float64{7}, 1, 1))
	for _, side := range []int64{1 << 16, 1 << 20, 1 << 24, 1 << 29} {
		large := coretest.Keep(t)(one.Broadcast(side, side))
		m, release, err := ToMatrix(large)
		if err != nil {
			t.Fatal(err)
		}
		_, err = CopyMatrix(m)
		coretest.WantError(t, err, core.ErrOutOfMemory, "CopyMatrix")
		_, err = CopyDense(t.Context(), large)
		coretest.WantError(t, err, core.ErrOutOfMemory, "CopyDense")
		release()
	}
}
