package gonum

import (
	"os"
	"syscall"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// limited names the process of TestMemoryThatTheSystemRefuses, which may have little memory.
const limited = "DLX_GONUM_LIMITED_MEMORY"

// A copy that the system has no memory for is an error.
func TestMemoryThatTheSystemRefuses(t *testing.T) {
	if os.Getenv(limited) == "" {
		if coretest.Sanitized {
			t.Skip("a sanitizer needs more memory than the limit of this test")
		}
		coretest.Child(t, t.Name(), limited+"=1")(t)
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 8 << 30, Max: 8 << 30}); err != nil {
		t.Fatal(err)
	}
	one := coretest.Keep(t)(core.FromSlice([]float64{7}, 1, 1))
	for _, side := range []int64{1 << 16, 1 << 20, 1 << 24, 1 << 29} {
		large := coretest.Keep(t)(one.Broadcast(side, side))
		m, release, err := ToMatrix(large)
		if err != nil {
			t.Fatal(err)
		}
		_, err = CopyMatrix(m)
		coretest.WantError(t, err, core.ErrOutOfMemory, "CopyMatrix")
		_, err = CopyDense(t.Context(), large)
		coretest.WantError(t, err, core.ErrOutOfMemory, "CopyDense")
		release()
	}
}
