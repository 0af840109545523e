//go:build !linux

package cpu

import "github.com/dlx-go/dlx/core"

// There are no memfds here: every way to one starts with probeMemFD or ends in
// its error.

func probeMemFD() error {
	return core.Errorf(core.ErrNotSupported, "cpu", "memfd_create", "%s has no memfd", platform)
}

func wholePages(int64) (int64, error) { return 0, probeMemFD() }

func newMemFD(int64) (*core.Handle, mapping, error) { return nil, mapping{}, probeMemFD() }

func mapMemFD(core.ExternalMemory) (mapping, int64, error) { return mapping{}, 0, probeMemFD() }
