package plot

import (
	"bytes"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{"Format": Format, "Write": Write}, new(bytes.Buffer), "svg", "png")
}
