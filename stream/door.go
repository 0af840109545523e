package stream

import (
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/door"
)

// inside is what core does for this module alone.
var inside = door.Core.(interface {
	Supersede(*core.Buffer, []core.Event, core.Event)
})
