package facts

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{
		"Simulated": Simulated, "Software": Software, "Read": Read, "Host": Host, "Load": Load,
		"zero Machine": new(Machine), "nil Machine": (*Machine)(nil),
	}, new(core.Registry))
}
