//go:build ucx && linux && cgo

package ucx

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// A segment of shared memory that ended with the process of the peer is the end of the peer.
func TestTheSegmentOfADeadPeer(t *testing.T) {
	const shmemSegment = -17 // UCS_ERR_SHMEM_SEGMENT
	if err := failed("request", shmemSegment); !errors.Is(err, core.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
}
