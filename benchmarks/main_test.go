package benchmarks

import (
	"os"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// isWorker is a variable of the environment: with it the test binary is a process that serves.
const isWorker = "DLX_TEST_BENCHMARKS_WORKER"

// serveTestCases is what such a process does, where there are such processes.
var serveTestCases func() error

func TestMain(m *testing.M) {
	if os.Getenv(isWorker) == "" {
		coretest.Main(m)
	}
	if err := serveTestCases(); err != nil {
		println(err.Error())
		os.Exit(1)
	}
}
