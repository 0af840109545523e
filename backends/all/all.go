// Package all knows every backend. It is the one package that imports them.
//
// The CPU is always there. Build tags add the others, on Linux and with cgo: cuda, opencl, vulkan, gl.
// Their drivers are opened at run time, so that a program with all of them starts on any machine.
package all

import (
	"slices"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
)

// New returns a registry of its own with the backends of this build, the host
// first. Whether they can be used on this machine is told by their Probe.
func New() *core.Registry {
	r := new(core.Registry)
	for _, b := range backends() {
		_ = r.Register(b) // fails only if two backends have one name, which a test excludes
	}
	return r
}

// backends lists what was built in. A backend behind a build tag joins by a
// function of its own, which returns it in the file with the tag and nothing in
// the file without: with its tag, on Linux, with cgo.
func backends() []core.Backend {
	return slices.Concat(
		[]core.Backend{cpu.New()},
		cudaBackends(),
		openclBackends(),
		vulkanBackends(),
		glBackends(),
	)
}
