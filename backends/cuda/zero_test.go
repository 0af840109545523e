package cuda_test

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
)

// Every build has the API. Zero values of its types fail as closed ones do.
func TestZeroValuesFail(t *testing.T) {
	ctx := t.Context()
	var timer cuda.Timer
	var buffer cuda.GLBuffer
	_, elapsed := timer.Elapsed(ctx)
	_, mapped := buffer.Map(ctx, nil, core.Spec{})
	for name, err := range map[string]error{
		"Timer.Start": timer.Start(nil), "Timer.Stop": timer.Stop(nil), "Timer.Elapsed": elapsed,
		"GLBuffer.Map": mapped, "GLBuffer.Unmap": buffer.Unmap(ctx, nil),
	} {
		if !errors.Is(err, core.ErrClosed) && !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{"Timer": timer.Close(), "GLBuffer": buffer.Close()} {
		if err != nil {
			t.Errorf("Close of %s: %v", name, err)
		}
	}
}
