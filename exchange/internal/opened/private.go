package opened

import (
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/private"
)

// privateCore is what core does for this module alone.
var privateCore = private.Core.(interface {
	Attach(*core.Buffer, core.Owner) (detach func() bool)
	Opened(on core.DeviceID)
	Closed(on core.DeviceID)
})
