package remote

import (
	"errors"
	"fmt"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/remote/internal/ucx"
)

// PathOf returns how the elements of a tensor on the device get from its memory to UCX, or from UCX to its memory: Direct if UCX
// uses the memory itself, and Staged, with the reason, if they go through memory of the host in pieces of 4 MiB. UCX uses memory of CUDA
// and ROCm itself if it knows it, and no piece of the tensor is so small that it comes with its message (8 KiB). PathOf answers for
// a tensor of one piece of 4 MiB.
func PathOf(id core.DeviceID) (m exchange.Mechanism, reason string) {
	_, reason = pathOf(id, pieceBytes)
	if reason == "" {
		return exchange.Direct, ""
	}
	return exchange.Staged, reason
}

// deviceMemory has the kinds of memory of devices that UCX may know. Memory of HIP over CUDA is of no kind that it knows.
var deviceMemory = map[core.DeviceType]ucx.Memory{core.DeviceCUDA: ucx.CUDA, core.DeviceROCM: ucx.ROCm}

// pathOf returns the kind of memory by which UCX uses a tensor of so many bytes on the device itself. Otherwise it returns the reason why
// the elements go through memory of the host.
func pathOf(id core.DeviceID, bytes int64) (m ucx.Memory, reason string) {
	if id.Type.HostAccessible() {
		return ucx.Host, ""
	}
	staged := fmt.Sprintf("UCX uses memory of the host, and the tensor lies on %v", id)
	m, possible := deviceMemory[id.Type]
	if !possible {
		return ucx.Host, staged
	}
	if err := ucx.Knows(m); err != nil {
		var e *core.Error
		if errors.As(err, &e) {
			return ucx.Host, staged + ": " + e.Detail
		}
		return ucx.Host, fmt.Sprintf("%s: %v", staged, err)
	}
	if _, last := pieceAt(bytes, pieces(bytes)-1); last <= ucx.MaxEager {
		return ucx.Host, fmt.Sprintf("%s: %d bytes of it come with a message", staged, last)
	}
	return m, ""
}
