//go:build linux && cgo && opencl

package all

import (
	"github.com/dlx-go/dlx/backends/opencl"
	"github.com/dlx-go/dlx/core"
)

func openclBackends() []core.Backend { return []core.Backend{opencl.New()} }
