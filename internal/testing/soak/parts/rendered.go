package parts

import (
	"context"

	"github.com/dlx-go/dlx/backends/vulkan"
	"github.com/dlx-go/dlx/core"
)

// Rendered makes a VkBuffer with these bytes, and imports it as one of a renderer, who destroys it when it is given back.
func Rendered(ctx context.Context, d core.Device, o core.AllocOptions, fill []byte, s core.Spec) (*core.Tensor, error) {
	own, err := Alloc(ctx, d, o, nil, fill, core.Spec{DType: core.TypeUint8, Shape: []int64{int64(len(fill))}})
	if err != nil {
		return nil, err
	}
	b, _, err := vulkan.BufferOf(own) // memory for export begins with the VkBuffer
	if err != nil {
		_ = own.Close()
		return nil, err
	}
	b.Size = int64(len(fill)) // without what dlx has added
	t, err := vulkan.ImportBuffer(d, b, s, core.FreeFunc(func() { _ = own.Close() }))
	if err != nil {
		_ = own.Close()
	}
	return t, err
}
