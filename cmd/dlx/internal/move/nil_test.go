package move

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	sound := coretest.Keep(t)(core.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	coretest.CheckNils(t, map[string]any{
		"Refusals": Refusals, "Open": Open, "Policy": Policy(""), "zero Report": new(Report),
		"zero Route": new(Route), "MismatchError": new(MismatchError),
		"nil Route": (*Route)(nil), "nil Report": (*Report)(nil), "nil MismatchError": (*MismatchError)(nil),
	}, sound, new(core.Registry))
}
