package exchange

import (
	"context"
	"math"

	"github.com/dlx-go/dlx/core"
)

// Tracer is told of moves. Set it as [Options.Tracer]. The module interop/otel makes one that records spans of
// OpenTelemetry. Implementations must be safe for concurrent use.
type Tracer interface {
	// Start is called when a move begins. The move uses the context that Start returns, which is ctx or made
	// from it. end is called once, when the call of package exchange is about to return, with the reports
	// and the error that it returns. A call of [ToAll] that failed has no reports. A copy may still be
	// running when end is called.
	Start(ctx context.Context, m MoveStart) (moving context.Context, end func([]Report, error))
}

// MoveStart is what is known when a move begins.
type MoveStart struct {
	Call    string        // the function: "To", "ToAll" or "Run"
	From    core.DeviceID // where the first tensor lies; the zero value if there is none
	To      core.DeviceID // the destination; the zero value if it is nil
	Tensors int           // how many tensors are to be moved
	Bytes   int64         // the sum of their [core.Tensor.NumBytes], or math.MaxInt64 if it is larger
}

// startOf describes a move that begins. srcs and dst may be nil.
func startOf(call string, dst core.Device, srcs ...*core.Tensor) MoveStart {
	s := MoveStart{Call: call, Tensors: len(srcs)}
	if len(srcs) > 0 {
		s.From = srcs[0].DeviceID()
	}
	for _, t := range srcs {
		switch n := t.NumBytes(); {
		case t == nil:
		case s.Bytes <= math.MaxInt64-n:
			s.Bytes += n
		default:
			s.Bytes = math.MaxInt64
		}
	}
	if dst != nil {
		s.To = dst.ID()
	}
	return s
}

// traceOne makes a move of one tensor, and tells t of it.
func traceOne(ctx context.Context, t Tracer, call string, src *core.Tensor, dst core.Device, move func(context.Context) (*core.Tensor, Report, error)) (*core.Tensor, Report, error) {
	moving, end := t.Start(ctx, startOf(call, dst, src))
	result, report, err := move(moving)
	end([]Report{report}, err)
	return result, report, err
}

// traceTo is To, and tells the tracer of o of it. To has no closure of its own, which would allocate.
func traceTo(ctx context.Context, src *core.Tensor, dst core.Device, o Options) (*core.Tensor, Report, error) {
	t := o.Tracer
	o.Tracer = nil
	return traceOne(ctx, t, "To", src, dst, func(ctx context.Context) (*core.Tensor, Report, error) { return To(ctx, src, dst, o) })
}

// traceAll is ToAll, and tells the tracer of o of it.
func traceAll(ctx context.Context, srcs []*core.Tensor, dst core.Device, o Options) ([]*core.Tensor, []Report, error) {
	moving, end := o.Tracer.Start(ctx, startOf("ToAll", dst, srcs...))
	o.Tracer = nil
	results, reports, err := ToAll(moving, srcs, dst, o)
	end(reports, err)
	return results, reports, err
}
