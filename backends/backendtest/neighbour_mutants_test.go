package backendtest

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// neighbourMutants are devices that take what lies beside memory for the memory itself, or refuse it.
var neighbourMutants = onOpaque(slices.Concat(
	each("takes memory at the start of a page for what it mapped there", hooks{copy: losesFirst}, "stream true",
		"map-host/one-page", "host-view/other-part", "hammer/neighbours"),
	each("takes no memory before an address", failIf(func(dst, src *core.Tensor) bool {
		return isReversed(dst) || isReversed(src)
	}), "Copy(", "layout/before-the-handle", "dlpack/reversed"),
	each("takes no array beside a pointer", failFor(func(t *core.Tensor) bool { return t.NumBytes() == 3001 }),
		"Copy(", "layout/beside-pointers"),
))

// losesFirst copies nothing between host memory that begins as mapped pages do and the
// device, on a stream.
func losesFirst(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	for _, t := range []*core.Tensor{dst, src} {
		if t.DeviceID() != core.CPU || s == nil || t.IsEmpty() {
			continue
		}
		if address, err := t.Address(); err != nil || address%256 == 0 {
			return err
		}
	}
	return d.Copy(ctx, s, dst, src)
}

// isReversed reports whether elements lie before the address of memory of unknown size.
func isReversed(t *core.Tensor) bool {
	low, _ := t.Layout().Extent()
	b, err := t.Buffer()
	return err == nil && b.Memory().Size == core.UnknownSize && low < 0
}
