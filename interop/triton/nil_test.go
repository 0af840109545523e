package triton

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{"Dial": Dial, "DialHTTP": DialHTTP})
}
