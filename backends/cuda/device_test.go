//go:build cuda && linux && cgo

package cuda

import (
	"encoding/hex"
	"os"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// parentVariable gives a child of TestAnInstanceHasItsOwnUUID the UUID of the whole card.
const parentVariable = "DLX_CUDA_TEST_PARENT"

// The older function returns the UUID of the whole card, for each of its MIG instances
// ("Device Management", cuDeviceGetUuid_v2).
func TestAnInstanceHasItsOwnUUID(t *testing.T) {
	simulator(t)
	d := open(t)
	defer func() { _ = d.Close() }()
	id := d.Properties().UUID
	own := hex.EncodeToString(id[:])
	if parent := os.Getenv(parentVariable); parent != "" {
		if own == parent {
			t.Errorf("an instance has the UUID of its card, %s", own)
		}
		return
	}
	coretest.Child(t, t.Name(), "DLX_GPUSIM_MIG=1", parentVariable+"="+own)(t)
}
