package figure

import (
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	coretest.CheckNils(t, map[string]any{
		"Size": Size, "Family": Family, "Path": Path, "Variant": Variant, "Label": Label, "Bandwidth": Bandwidth, "Latency": Latency,
	}, -1)
}
