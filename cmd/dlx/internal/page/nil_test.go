package page

import (
	"bytes"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{
		"MechanismClass": MechanismClass, "Pack": Pack, "C": C, "N": N, "Page": Page{}, "Cell": Cell{}, "Span": Span{}, "Table": Table{},
	}, new(bytes.Buffer))
}
