//go:build !linux

package cpu

import "github.com/dlx-go/dlx/core"

// This system has no memfd: every function here returns the error of probeMemFD.

func probeMemFD() error {
	return core.Errorf(core.ErrNotSupported, "cpu", "memfd_create", "%s has no memfd", platform)
}

func wholePages(int64) (int64, error) { return 0, probeMemFD() }

func newMemFD(int64) (*core.Handle, mapping, error) { return nil, mapping{}, probeMemFD() }

func mapMemFD(core.ExternalMemory) (mapping, int64, bool, error) {
	return mapping{}, 0, false, probeMemFD()
}
