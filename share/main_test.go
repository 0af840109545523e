package share

import (
	"os"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// childVariable makes the test binary the other process of a test.
const childVariable = "DLX_SHARE_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		runChild(role)
	}
	coretest.Main(m)
}
