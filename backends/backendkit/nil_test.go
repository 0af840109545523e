package backendkit_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	sound, err := core.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer sound.Close()
	coretest.CheckNils(t, map[string]any{
		"CapabilityOf": backendkit.CapabilityOf[core.HostViewer], "CheckCapabilities": backendkit.CheckCapabilities, "UnwrapEvent": backendkit.UnwrapEvent,
		"CheckCopy": backendkit.CheckCopy, "CheckCopyOnHost": backendkit.CheckCopyOnHost, "CheckFileRead": backendkit.CheckFileRead, "Independent": backendkit.Independent, "SmallCopy": backendkit.SmallCopy,
		"NewHandle": backendkit.NewHandle, "NewIPCHandle": backendkit.NewIPCHandle, "GroupByPhysicalDevice": backendkit.GroupByPhysicalDevice,
		"CloseHooks": new(backendkit.CloseHooks), "OpenSet": new(backendkit.OpenSet), "OpenItem": new(backendkit.OpenItem),
	}, sound)
}
