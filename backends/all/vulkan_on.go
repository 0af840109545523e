//go:build linux && cgo && vulkan

package all

import (
	"github.com/dlx-go/dlx/backends/vulkan"
	"github.com/dlx-go/dlx/core"
)

func vulkanBackends() []core.Backend { return []core.Backend{vulkan.New()} }
