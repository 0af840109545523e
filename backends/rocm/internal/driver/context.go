//go:build rocm && linux && cgo

package driver

// #include "shim.h"
import "C"

import "github.com/dlx-go/dlx/backends/internal/cudalike"

// context is the number of a device. HIP has one context for each, which lives as long as the process.
type context int32

var _ cudalike.Context = context(0)

// ID returns the number of the device plus 1.
func (c context) ID() cudalike.ContextID { return cudalike.ContextID(c + 1) }

// ordinalOf is the reverse of ID.
func ordinalOf(id cudalike.ContextID) C.int { return C.int(id) - 1 }

func (c context) device() C.int { return C.int(c) }

func (library) Retain(ordinal int32) (cudalike.Context, cudalike.Status) {
	return context(ordinal), cudalike.Status{}
}

func (library) Release(int32) cudalike.Status { return cudalike.Status{} }
