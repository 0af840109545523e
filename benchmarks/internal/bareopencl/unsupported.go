//go:build !linux || !cgo

package bareopencl

import (
	"time"

	"github.com/dlx-go/dlx/core"
)

// Loop copies nothing in this build, which cannot make one.
type Loop struct{}

// Open fails with core.ErrNotSupported.
func Open(uintptr) (*Loop, error) {
	return nil, core.Errorf(core.ErrNotSupported, "bareopencl", "Open", "this calls C: build with CGO_ENABLED=1, on Linux")
}

// Copy fails as Open does.
func (*Loop) Copy(bool, uintptr, int64, uintptr, int64, int) (time.Duration, error) {
	_, err := Open(0)
	return 0, err
}

// Memcpy fails as Open does.
func (*Loop) Memcpy(uintptr, uintptr, int64, int) (time.Duration, error) {
	_, err := Open(0)
	return 0, err
}
