//go:build cgo

package opencv

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	sound := coretest.Keep(t)(core.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	coretest.CheckNils(t, map[string]any{"FromMat": FromMat, "ToMat": ToMat, "ToImage": ToImage}, sound)
}
