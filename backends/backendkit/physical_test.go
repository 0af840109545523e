package backendkit_test

import (
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

func ExampleGroupByPhysicalDevice() {
	gpu := core.UUID{1, 2, 3}
	for _, same := range backendkit.GroupByPhysicalDevice([]core.Properties{
		{ID: core.CPU},
		{ID: core.DeviceID{Type: core.DeviceCUDA}, UUID: gpu},
		{ID: core.DeviceID{Type: core.DeviceCUDA, Index: 1}, UUID: core.UUID{4}},
		{ID: core.DeviceID{Type: core.DeviceVulkan}, UUID: gpu},
	}) {
		var names []core.DeviceID
		for _, p := range same {
			names = append(names, p.ID)
		}
		fmt.Println(names)
	}
	// Output:
	// [cpu]
	// [cuda:0 vulkan:0]
	// [cuda:1]
}

// One device may tie others together that have nothing in common.
func TestGroupsAreTiedByEitherName(t *testing.T) {
	id := func(x core.DeviceType, i int32) core.DeviceID { return core.DeviceID{Type: x, Index: i} }
	groups := backendkit.GroupByPhysicalDevice([]core.Properties{
		{ID: id(core.DeviceOpenCL, 0), PCI: "0000:01:00.0"},
		{ID: id(core.DeviceVulkan, 0), UUID: core.UUID{1}},
		{ID: id(core.DeviceCUDA, 0), UUID: core.UUID{1}, PCI: "0000:01:00.0"},
		{ID: id(core.DeviceGL, 0)},
		{ID: id(core.DeviceGL, 1)},
	})
	got := ""
	for _, g := range groups {
		for _, p := range g {
			got += p.ID.String() + " "
		}
		got += "| "
	}
	if want := "opencl:0 vulkan:0 cuda:0 | gl:0 | gl:1 | "; got != want {
		t.Errorf("groups %s, want %s", got, want)
	}
	if backendkit.GroupByPhysicalDevice(nil) != nil {
		t.Error("no devices have groups")
	}
}
