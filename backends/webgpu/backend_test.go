//go:build webgpu && linux && cgo

package webgpu

import (
	"testing"

	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
)

// SwiftShader has no description.
func TestADriverWithoutADescription(t *testing.T) {
	for description, want := range map[string]string{"": "wgpu-native 29", "Mesa 25": "wgpu-native 29, Mesa 25"} {
		if got := properties(&wgpu.Library{Version: "wgpu-native 29"}, &wgpu.Adapter{Driver: description}, 0).Driver; got != want {
			t.Errorf("described as %q, the driver is %q, want %q", description, got, want)
		}
	}
}
