// Package all makes a registry of all backends of a build. It is the only package that imports all backends.
//
// The CPU backend is in every build. Each other backend needs the build tag of its name, Linux and cgo; metal needs macOS.
// Drivers are opened at run time, so a program with every backend starts on any machine.
package all

import (
	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/backends/gl"
	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/backends/metal"
	"github.com/dlx-go/dlx/backends/oneapi"
	"github.com/dlx-go/dlx/backends/opencl"
	"github.com/dlx-go/dlx/backends/rocm"
	"github.com/dlx-go/dlx/backends/vulkan"
	"github.com/dlx-go/dlx/backends/webgpu"
	"github.com/dlx-go/dlx/core"
)

// backends lists every backend, the host first. A new backend adds a line.
func backends() []core.Backend {
	return []core.Backend{
		cpu.New(),
		cuda.New(),
		rocm.New(),
		opencl.New(),
		oneapi.New(),
		vulkan.New(vulkan.Options{}),
		gl.New(),
		metal.New(),
		webgpu.New(),
	}
}

// New returns a new registry with the backends of this build, beginning with the CPU backend.
// [core.Registry.Probes] reports which of them can be used on this machine.
func New() *core.Registry {
	r := new(core.Registry)
	for _, b := range backends() {
		if !unbuilt.Is(b) {
			_ = r.Register(b) // fails only if two backends have one name, which a test excludes
		}
	}
	return r
}

// Tags returns all build tags that add a backend, whether or not this build has them. Each tag is the name of
// its backend.
func Tags() []string {
	var tags []string
	for _, b := range backends()[1:] {
		tags = append(tags, b.Name())
	}
	return tags
}
