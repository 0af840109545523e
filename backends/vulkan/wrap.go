//go:build vulkan && linux && cgo

package vulkan

import (
	"context"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

func keepVulkanGo() { driver.KeepVulkanGo() }

func wrap(ctx context.Context, h Handles) (core.Device, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if h.Instance == 0 || h.PhysicalDevice == 0 || h.Device == 0 || h.Queue == 0 || h.Family < 0 || h.Index < 0 {
		return nil, errorf(core.ErrInvalid, "Wrap", "Instance, PhysicalDevice, Device or Queue is 0, or Family or Index negative")
	}
	i, err := driver.WrapInstance(uint64(h.Instance))
	if err != nil {
		return nil, err
	}
	p, err := i.Physical(uint64(h.PhysicalDevice))
	if err == nil {
		err = p.Usable()
	}
	if err != nil {
		return nil, err
	}
	v, err := driver.WrapDevice(p, uint64(h.Device), uint64(h.Queue), h.Family, h.Extensions, h.Lock)
	if err != nil {
		return nil, err
	}
	return openDevice(i, v, options{}, h.Index)
}
