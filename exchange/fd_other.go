//go:build !unix

package exchange

import "github.com/dlx-go/dlx/core"

// closeFD does nothing: on this system no device has memory with descriptors.
func closeFD(int) {}

func duplicateFD(fd int) (int, error) {
	return -1, core.Errorf(core.ErrNotSupported, "exchange", "dup", "this system has no memory with descriptors")
}
