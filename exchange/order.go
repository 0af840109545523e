package exchange

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// handoff makes Options.Stream wait until t may be read.
func (m *move) handoff(ctx context.Context, t *core.Tensor) (stream.Mechanism, error) {
	if m.o.From == nil || m.o.From.Device() == nil || m.o.Stream.Device() == nil {
		return stream.Handoff(ctx, t, nil, m.o.Stream)
	}
	l, done, err := opened.link(ctx, m.o.From, m.o.Stream)
	if err != nil || l == nil { // the host can always wait
		return stream.Handoff(ctx, t, nil, m.o.Stream)
	}
	defer done()
	return l.Handoff(ctx, t, m.o.From, m.o.Stream)
}
