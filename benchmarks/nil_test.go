package benchmarks

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	const output = "it takes the standard output of the process"
	coretest.CheckNils(t, map[string]any{
		"FindDevice": FindDevice, "FindPair": FindPair, "Select": Select, "Run": Run, "RunByTurns": RunByTurns, "List": List,
		"FindPython": FindPython, "ParseTransfer": ParseTransfer, "Serve": Serve, "WorkerOutput": output,
		"zero Report": new(Report), "nil Report": (*Report)(nil), "zero Case": new(Case), "nil Case": (*Case)(nil),
		"zero Common": new(Common), "nil Common": (*Common)(nil), "Target": Target{}, "Transfer": Transfer{},
	}, new(core.Registry), (*core.Registry)(nil), strings.NewReader(""), new(bytes.Buffer))
}
