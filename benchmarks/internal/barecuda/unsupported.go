//go:build !linux || !cgo

package barecuda

import (
	"time"

	"github.com/dlx-go/dlx/core"
)

// Loop copies nothing in this build, which cannot make one.
type Loop struct{}

// Open fails with core.ErrNotSupported.
func Open(int) (*Loop, error) {
	return nil, core.Errorf(core.ErrNotSupported, "barecuda", "Open", "this calls C: build with CGO_ENABLED=1, on Linux")
}

// Copy copies nothing.
func (*Loop) Copy(dst, src uintptr, bytes int64, n int) (time.Duration, error) {
	_, err := Open(0)
	return 0, err
}

// Close does nothing.
func (*Loop) Close() {}
