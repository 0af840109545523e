//go:build !unix

package benchmarks

import (
	"context"
	"os"
	"os/exec"

	"github.com/dlx-go/dlx/core"
)

// WorkerOutput fails: on this system a benchmark has no processes of its own for its cases.
func WorkerOutput() (*os.File, error) { return nil, noWorkers("WorkerOutput") }

func startWorker(context.Context, func(context.Context) *exec.Cmd) (*worker, error) {
	return nil, noWorkers("Run")
}

func noWorkers(call string) error {
	return core.Errorf(core.ErrNotSupported, "benchmarks", call, "cases are measured in processes of their own on Unix only: leave Options.Worker nil")
}
