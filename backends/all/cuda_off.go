//go:build !(linux && cgo && cuda)

package all

import "github.com/dlx-go/dlx/core"

func cudaBackends() []core.Backend { return nil }
