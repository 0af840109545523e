//go:build !linux

package benchmarks

import "github.com/dlx-go/dlx/core"

// words fails: package share works on Linux.
func (e *env) words() (sampler, error) {
	return nil, core.Errorf(core.ErrNotSupported, "benchmarks", "words", "memory files are those of Linux")
}
