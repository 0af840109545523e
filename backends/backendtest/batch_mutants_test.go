package backendtest

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

var batchMutants = []mutant[hooks]{
	{"copies all but the last of a batch", "batch/copies", "dst[130]",
		hooks{copyBatch: func(d *device, ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
			if n := len(dst); n > 1 && n == len(src) {
				dst, src = dst[:n-1], src[:n-1]
			}
			return d.CopyBatch(ctx, s, dst, src)
		}}},
	{"makes the copies of a batch in any order", "batch/in-order", "what was copied from the first result",
		hooks{copyBatch: func(d *device, ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
			for i := len(dst) - 1; i >= 0; i-- {
				if err := d.Copy(ctx, s, dst[i], src[i]); err != nil {
					return err
				}
			}
			return nil
		}}},
	{"waits only for the first tensor of a batch", "batch/waits", "what was copied from src[1]", firstOnly},
	{"records a batch as a use of its first tensor only", "batch/ready", "dst[1] is ready before the copies have begun", firstOnly},
	{"copies what comes before the pair that cannot be copied", "batch/errors", "dst[0] after the refused copies",
		oneByOne(1, (*device).Copy)},
}

// firstOnly orders a batch by its first tensors only.
var firstOnly = oneByOne(2, forgetsBoth.copy)

// oneByOne copies a batch of at least some pairs as single copies: the first pair well, all others by a hook.
func oneByOne(least int, others copyHook) hooks {
	return hooks{copyBatch: func(d *device, ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
		if s == nil || len(dst) < least || len(dst) != len(src) {
			return d.CopyBatch(ctx, s, dst, src)
		}
		if err := d.Copy(ctx, s, dst[0], src[0]); err != nil {
			return err
		}
		for i := range dst[1:] {
			if err := others(d, ctx, s, dst[i+1], src[i+1]); err != nil {
				return err
			}
		}
		return nil
	}}
}
