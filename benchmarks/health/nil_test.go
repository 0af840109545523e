package health

import (
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{
		"Check": Check, "Judged": Judged, "Read": Read, "Make": Make, "zero Limits": new(Limits), "nil Limits": (*Limits)(nil),
	}, strings.NewReader("{}"))
}
