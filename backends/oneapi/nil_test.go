package oneapi

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func TestNilArguments(t *testing.T) {
	sound := coretest.Keep(t)(core.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	other := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Log: t.Logf})
	coretest.CheckNils(t, map[string]any{
		"New": New, "HandlesOf": HandlesOf, "Wrap": Wrap, "Adopt": Adopt, "ImportEvent": ImportEvent,
	}, sound, other)
}
