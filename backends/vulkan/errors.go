//go:build vulkan && linux && cgo

package vulkan

import "github.com/dlx-go/dlx/core"

// name is the backend's.
const name = "vulkan"

func errorf(sentinel error, call, format string, args ...any) *core.Error {
	return core.Errorf(sentinel, name, call, format, args...)
}
