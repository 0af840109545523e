//go:build !linux || !cgo

package gpusim

import "errors"

// Simulator is not there in this build.
type Simulator struct{}

// ErrNone says that this build has no simulated driver.
var ErrNone = errors.New("gpusim: the simulated driver needs cgo, on Linux")

// Open fails with [ErrNone].
func Open() (*Simulator, error) { return nil, ErrNone }

// OpenHIP fails with [ErrNone].
func OpenHIP() (*Simulator, error) { return nil, ErrNone }
