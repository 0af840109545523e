//go:build !race && !asan && !msan

package staging_test

import (
	"context"
	"testing"

	"github.com/dlx-go/dlx/internal/staging"
)

// nothing has no work.
type nothing struct{}

func (*nothing) Fill(context.Context, *int, int, int) (int, error)  { return 0, nil }
func (*nothing) Empty(context.Context, *int, int, int) (int, error) { return 0, nil }

// Sanitizers allocate what other builds keep on the stack.
func TestAPipelineAllocatesNothing(t *testing.T) {
	p, ctx := &staging.Pipeline[int, int, int]{Steps: &nothing{}, Late: true}, t.Context()
	if n := testing.AllocsPerRun(100, func() { _ = p.Put(ctx, 1) }); n != 0 {
		t.Errorf("%v allocations for a piece", n)
	}
}
