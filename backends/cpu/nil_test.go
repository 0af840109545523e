package cpu

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{"New": New})
}
