package share

import (
	"context"
	"net"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/private"
)

// privateCore is what core does for this module alone.
var privateCore = private.Core.(interface {
	Attach(*core.Buffer, core.Owner) (detach func() bool)
	NewHandle(core.HandleType, uintptr) (*core.Handle, error)
	Describe(call string, t *core.Tensor, m *core.Memory, s *core.Spec) error
	OriginOffset(*core.Buffer) int64
	ReadShareMetrics(func() core.ShareMetrics)
	Unique(*core.Buffer) bool
})

// privateShare is what this package does for internal/doctor.
type privateShare struct{}

// Dial connects to a socket like the function Dial, without speaking. The caller closes the result.
func (privateShare) Dial(ctx context.Context, path string) (*net.UnixConn, error) {
	return dial(ctx, path)
}

func init() { private.Share = privateShare{} }
