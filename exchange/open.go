package exchange

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// Open opens memory that was exported elsewhere, mostly by another process, and
// makes a tensor on it, which the caller closes.
//
// Memory that is already open is not opened again: its tensors share one buffer, and
// with it the order of their work. It is closed with the last of them. Two descriptors
// name the same memory if the file behind them is the same (see
// [core.ExternalMemory.Backing]). If that is unknown, as with descriptors of a
// driver's device file, every call opens the memory anew. Then callers keep the order of
// work on its tensors themselves, and must not copy between parts of it that overlap.
//
// Open takes the payload of x's handle on success, as [core.MemoryImporter] does, and leaves
// it to the caller on failure. Open fails with ErrNotSupported if dst imports no memory of that type,
// like [core.MemoryImporter] and like [core.NewTensor].
func Open(ctx context.Context, dst core.Device, x core.ExternalMemory, s core.Spec) (*core.Tensor, error) {
	return cache.Open(ctx, dst, x, s)
}
