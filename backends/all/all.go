// Package all is the list of all backends, and the one package that imports all of them.
//
// The CPU's backend is always there. Each of the others needs the build tag of its name, Linux and cgo.
// Drivers are opened at run time, so a program with every backend starts on any machine.
package all

import (
	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/backends/gl"
	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/backends/opencl"
	"github.com/dlx-go/dlx/backends/vulkan"
	"github.com/dlx-go/dlx/core"
)

// backends lists every backend, the host first. A new backend adds a line.
func backends() []core.Backend {
	return []core.Backend{
		cpu.New(),
		cuda.New(),
		opencl.New(),
		vulkan.New(),
		gl.New(),
	}
}

// New returns a new registry with the backends of this build, the host first. Their Probe methods report
// whether they can be used on this machine.
func New() *core.Registry {
	r := new(core.Registry)
	for _, b := range backends() {
		if !unbuilt.Is(b) {
			_ = r.Register(b) // fails only if two backends have one name, which a test excludes
		}
	}
	return r
}

// Tags returns the build tags of dlx. Each one adds the backend of its name.
func Tags() []string {
	var tags []string
	for _, b := range backends()[1:] {
		tags = append(tags, b.Name())
	}
	return tags
}
