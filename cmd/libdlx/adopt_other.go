//go:build cgo && !linux

package main

import (
	"runtime"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/share"
)

// adopt returns the error of a system on which there are no connections.
func adopt(_ int, options share.Options) (*share.Conn, error) { return share.New(nil, options) }

// duplicate returns the error of a system without memfd.
func duplicate(_ int, call string) (int, error) {
	return -1, core.Errorf(core.ErrNotSupported, origin, call, "%s has no memfd", runtime.GOOS)
}
