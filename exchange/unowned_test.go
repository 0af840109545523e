package exchange_test

import (
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// Memory whose backend the program may lack is refused with the tag that adds the backend.
func TestARefusalOfUnownedMemoryNamesTheTag(t *testing.T) {
	h := host(t)
	for kind, tag := range map[core.DeviceType]string{
		core.DeviceCUDA: "cuda", core.DeviceROCM: "rocm", core.DeviceOpenCL: "opencl",
		core.DeviceVulkan: "vulkan", core.DeviceMetal: "metal", core.DeviceWebGPU: "webgpu", core.DeviceMAIA: "",
	} {
		x, err := core.Wrap(core.Memory{ID: core.DeviceID{Type: kind}, Handle: 4096, Size: 16}, core.Spec{DType: core.TypeUint8, Shape: []int64{16}})
		if err != nil {
			t.Fatal(err)
		}
		_, planned := exchange.Plan(x, h, exchange.Options{})
		_, _, moved := exchange.To(t.Context(), x, h, exchange.Options{})
		for _, err := range []error{planned, moved} {
			switch {
			case err == nil || !strings.Contains(err.Error(), "no opened device owns the memory"):
				t.Errorf("%v: %v", kind, err)
			case strings.Contains(err.Error(), "-tags") != (tag != "") || !strings.Contains(err.Error(), "-tags "+tag) && tag != "":
				t.Errorf("%v: %v does not name the tag %q", kind, err, tag)
			}
		}
		_ = x.Close()
	}
}
