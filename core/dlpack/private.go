//go:build cgo && !windows

package dlpack

import (
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/private"
)

// privateCore is what core does for this module alone.
var privateCore = private.Core.(interface {
	Addressed(core.DeviceType) bool
	Place(b *core.Buffer, offset int64) (data uintptr, byteOffset int64)
	Describe(call string, t *core.Tensor, m *core.Memory, s *core.Spec) error
	ReleaseUnlessLast(*core.Buffer) bool
	Unique(*core.Buffer) bool
})
