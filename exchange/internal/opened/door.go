package opened

import (
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/door"
)

// inside is what core does for this module alone.
var inside = door.Core.(interface {
	Attach(*core.Buffer, core.Owner) (detach func() bool)
	Opened(on core.DeviceID)
	Closed(on core.DeviceID)
})
