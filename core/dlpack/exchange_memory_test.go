//go:build cgo && !windows && !asan

package dlpack_test

import (
	"testing"

	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
)

// The address sanitizer ends the process where malloc would return NULL.
func TestOurTableRefusesMoreMemoryThanThereIs(t *testing.T) {
	m, kind, code := hostile.CallAllocator(dlpack.Table(), 1, 1, 8, []int64{1 << 58})
	if m != nil || kind != "MemoryError" || code == 0 {
		t.Errorf("%p, kind %q, code %d", m, kind, code)
	}
}
