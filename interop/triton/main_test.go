package triton

import (
	"os"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// childVariable makes the test binary a process that a test kills.
const childVariable = "DLX_TRITON_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		runChild(role)
	}
	coretest.Main(m)
}
