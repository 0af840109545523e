package exchange

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// Open opens memory that was exported elsewhere, usually by another process, and makes a
// tensor on it. The caller closes the tensor.
//
// If this process already has the memory open on dst, Open does not open it again: the
// tensors share one buffer, and therefore the order of their work. The memory is closed
// with the last of them. Open finds out by the file behind the descriptor; see
// [core.ExternalMemory.Backing]. If that file is not known, as for opaque descriptors of
// most drivers, each call opens the memory again. The caller then keeps the order of work
// on the tensors, and must not copy between parts that overlap.
//
// If Open succeeds, it takes the payload of x.Handle, as [core.MemoryImporter] does. If it
// fails, it does not change the handle. Open returns core.ErrNotSupported if dst cannot
// import handles of that type, and the errors of [core.MemoryImporter] and
// [core.NewTensor].
func Open(ctx context.Context, dst core.Device, x core.ExternalMemory, s core.Spec) (*core.Tensor, error) {
	return cache.Open(ctx, dst, x, s)
}
