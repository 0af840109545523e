//go:build !(linux && cgo && opencl)

package all

import "github.com/dlx-go/dlx/core"

func openclBackends() []core.Backend { return nil }
