package stream

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/private"
)

// privateCore is what core does for this module alone.
var privateCore = private.Core.(interface {
	LastWrite(*core.Buffer) core.Event
	NoteIfIdle(b *core.Buffer, e core.Event, write bool) bool
	WaitOnHost(context.Context, *core.Buffer, core.Event) error
	Supersede(*core.Buffer, []core.Event, core.Event)
})
