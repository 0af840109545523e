//go:build !linux

package parts

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// HasPeers reports whether tensors can be passed to other processes.
const HasPeers = false

// ThereAndBack fails: package share is for Linux.
func ThereAndBack(context.Context, *core.Tensor, core.Device, func() error) (*core.Tensor, error) {
	return nil, core.Errorf(core.ErrNotSupported, "soak", "ThereAndBack", "not on this system")
}
