// Package all knows every backend. It is the one package that imports them.
package all

import (
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
// the file without.
func backends() []core.Backend {
	return []core.Backend{cpu.New()}
}
