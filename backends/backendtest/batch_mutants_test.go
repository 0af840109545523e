package backendtest

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

var batchMutants = []mutant{
	{
		name: "copies all but the last of a batch",
		hooks: hooks{copyBatch: func(d *device, ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
			if n := len(dst); n > 1 && n == len(src) {
				dst, src = dst[:n-1], src[:n-1]
			}
			return d.fake.CopyBatch(ctx, s, dst, src)
		}},
		fails: "batch/copies", says: "dst[130]",
	},
	{
		name: "makes the copies of a batch in any order",
		hooks: hooks{copyBatch: func(d *device, ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
			for i := len(dst) - 1; i >= 0; i-- {
				if err := d.fake.Copy(ctx, s, dst[i], src[i]); err != nil {
					return err
				}
			}
			return nil
		}},
		fails: "batch/in-order", says: "what was copied from the first result",
	},
	{
		name:  "waits only for the first tensor of a batch",
		hooks: hooks{copyBatch: firstOnly},
		fails: "batch/waits", says: "what was copied from src[1]",
	},
	{
		name:  "records a batch as a use of its first tensor only",
		hooks: hooks{copyBatch: firstOnly},
		fails: "batch/ready", says: "dst[1] is ready before the copies have begun",
	},
	{
		name: "copies what comes before the pair that cannot be copied",
		hooks: hooks{copyBatch: func(d *device, ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
			if len(dst) != len(src) {
				return d.fake.CopyBatch(ctx, s, dst, src)
			}
			for i := range dst {
				if err := d.fake.Copy(ctx, s, dst[i], src[i]); err != nil {
					return err
				}
			}
			return nil
		}},
		fails: "batch/errors", says: "dst[0] after the refused copies",
	},
}

// firstOnly orders a batch by its first tensors only.
func firstOnly(d *device, ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
	if s == nil || len(dst) < 2 {
		return d.fake.CopyBatch(ctx, s, dst, src)
	}
	if err := d.fake.Copy(ctx, s, dst[0], src[0]); err != nil {
		return err
	}
	for i := 1; i < len(dst); i++ {
		if err := forget(true, true)(d, ctx, s, dst[i], src[i]); err != nil {
			return err
		}
	}
	return nil
}
