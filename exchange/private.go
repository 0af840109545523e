package exchange

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/private"
)

// privateCore is what core does for this module alone.
var privateCore = private.Core.(interface {
	Addressed(core.DeviceType) bool
	Attach(*core.Buffer, core.Owner) (detach func() bool)
	CapabilityOf(pointer any) core.Capabilities
	ConvertBy(ctx context.Context, dst, src *core.Tensor, s core.Scaling) (core.Device, error)
	CopyAll(ctx context.Context, d core.Device, s core.Stream, dst, src []*core.Tensor) error
	LastWrite(*core.Buffer) core.Event
	MechanismNames() []string
	Moved(from, to core.DeviceID, mechanism int, bytes int64)
	MoveFailed(error)
	OriginOffset(*core.Buffer) int64
	Parts(*core.Buffer) (end func())
	Present(core.Device, *core.Tensor) error
})
