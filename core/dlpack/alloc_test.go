//go:build cgo && !windows && !asan && !race

package dlpack_test

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
)

// The sanitizers allocate for their own ends, so these tests are not built with them.

func TestExportDoesNotAllocate(t *testing.T) {
	tensor := iota32(t, 2, 3, 4)
	var sink *dlpack.ManagedTensorVersioned
	if n := testing.AllocsPerRun(1000, func() {
		sink, _ = dlpack.Export(tensor)
		hostile.Consume(sink)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestImportAllocatesAtMostOnce(t *testing.T) {
	var sink *core.Tensor
	if n := testing.AllocsPerRun(1000, func() {
		sink, _ = dlpack.Import(hostile.Immortal(), dlpack.ImportOptions{})
		_ = sink.Close()
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
