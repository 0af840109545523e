//go:build !linux || !cgo

package barewebgpu

import (
	"time"

	"github.com/dlx-go/dlx/core"
)

// Loop copies nothing in this build, which cannot make one.
type Loop struct{}

// Open fails with core.ErrNotSupported.
func Open(uintptr) (*Loop, error) {
	return nil, core.Errorf(core.ErrNotSupported, "barewebgpu", "Open", "this calls C: build with CGO_ENABLED=1, on Linux")
}

// Close does nothing.
func (*Loop) Close() {}

// Within fails as Open does.
func (*Loop) Within(uintptr, int64, uintptr, int64, int64, int) (time.Duration, error) {
	_, err := Open(0)
	return 0, err
}

// Upload fails as Open does.
func (*Loop) Upload(uintptr, int64, uintptr, int64, int) (time.Duration, error) {
	_, err := Open(0)
	return 0, err
}

// Download fails as Open does.
func (*Loop) Download(uintptr, uintptr, int64, int64, int) (time.Duration, error) {
	_, err := Open(0)
	return 0, err
}
