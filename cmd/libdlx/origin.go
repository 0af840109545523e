//go:build cgo

package main

import "github.com/dlx-go/dlx/core"

// origin is the part of dlx that errors of this package name.
const origin = "libdlx"

// invalid returns an error for a wrong argument.
func invalid(format string, args ...any) error {
	return core.Errorf(core.ErrInvalid, origin, "", format, args...)
}
