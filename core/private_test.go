package core_test

import (
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/private"
)

// privateCore is what core does for this module alone.
var privateCore = private.Core.(interface {
	Attach(*core.Buffer, core.Owner) (detach func() bool)
	Supersede(*core.Buffer, []core.Event, core.Event)
	Unique(*core.Buffer) bool
	ReleaseUnlessLast(*core.Buffer) bool
	OriginOffset(*core.Buffer) int64
	Parts(*core.Buffer) (end func())
})
