//go:build vulkan && linux && cgo

package vulkan

import (
	"os"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/dl/dltest"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestADriverThatTakesOverSignals(t *testing.T) {
	_ = open(t).Close()
	if os.Getenv(dltest.LibraryVariable) != "" {
		dltest.WantPanics(t, func() core.Device { return open(t, func(o *options) { o.separate = true }) })
		return
	}
	taking := []string{
		"vkCreateInstance", "vkEnumeratePhysicalDevices", "vkEnumerateDeviceExtensionProperties", "vkCreateDevice",
		"vkCreateComputePipelines", "vkDestroyDevice", "vkDestroyInstance",
	}
	coretest.Child(t, t.Name(),
		driver.LibraryVariable+"="+dltest.Hijack(t, "libvulkan.so.1", taking, nil),
		dltest.LibraryVariable+"="+dltest.System(t, "libvulkan.so.1"))(t)
}
