package remote

import (
	"fmt"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// PathOf returns how the elements of a tensor on the device get from its memory to UCX, or from UCX to its memory: Direct if UCX
// uses the memory itself, and Staged, with the reason, if they go through memory of the host in pieces of 4 MiB.
func PathOf(id core.DeviceID) (m exchange.Mechanism, reason string) {
	if id.Type.HostAccessible() {
		return exchange.Direct, ""
	}
	return exchange.Staged, fmt.Sprintf("UCX uses memory of the host, and the tensor lies on %v", id)
}
