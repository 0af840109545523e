package backendtest

import (
	"context"
	"errors"
	"io"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

var fileMutants = []mutant[hooks]{
	{"reads from another place of the file", "file/reads", "a copy of what was read",
		reads(func(f core.DeviceFile, ctx context.Context, dst *core.Tensor, offset int64) error {
			return f.ReadAt(ctx, dst, offset&^511) // whole sectors only
		})},
	{"takes the end of the file for the end of the read", "file/refused", "past the end", forgives(io.ErrUnexpectedEOF)},
	{"reads nothing after Close", "file/close", "ReadAt after Close", forgives(core.ErrClosed)},
}

func reads(hook func(core.DeviceFile, context.Context, *core.Tensor, int64) error) hooks {
	return hooks{options: coretest.Options{Files: true}, readAt: hook}
}

// forgives takes a read that fails for a good one.
func forgives(failure error) hooks {
	return reads(func(f core.DeviceFile, ctx context.Context, dst *core.Tensor, offset int64) error {
		err := f.ReadAt(ctx, dst, offset)
		if errors.Is(err, failure) {
			return nil
		}
		return err
	})
}
