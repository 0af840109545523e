//go:build vulkan && linux && cgo

package main

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Where CUDA is missing from the build, the program says so.
func TestTheProgramRuns(t *testing.T) {
	registry := all.New()
	built := true
	for _, name := range []string{"cuda", "vulkan"} {
		b, err := registry.Backend(name)
		if err != nil {
			built = false
			continue
		}
		coretest.NeedDriver(t, b.Probe(t.Context()).Reason, "a driver for "+name)
	}
	switch err := run(t.Context(), registry); {
	case built && err != nil:
		t.Error(err)
	case !built && !errors.Is(err, core.ErrNotSupported):
		t.Errorf("without CUDA: %v", err)
	}
}
