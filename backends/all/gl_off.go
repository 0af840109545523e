//go:build !(linux && cgo && gl)

package all

import "github.com/dlx-go/dlx/core"

func glBackends() []core.Backend { return nil }
