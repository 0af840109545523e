package remote

import (
	"os"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// childVariable makes the test binary the other process of a test.
const childVariable = "DLX_REMOTE_CHILD"

// runChild is the other process, where the build has UCX. It does not return.
var runChild func(address string)

func TestMain(m *testing.M) {
	if address := os.Getenv(childVariable); address != "" {
		runChild(address)
	}
	coretest.Main(m)
}
