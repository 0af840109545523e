package main

import (
	"errors"

	"github.com/dlx-go/dlx/cmd/dlx/internal/handoff"
)

// The exit codes, which the help of dlx lists; that of a command names those of its own.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitMismatch = 3
)

const exitHelp = `
Exit codes:
  0  success
  1  the work failed: a bad file, a device that is missing, no way for plan between
     devices that were named, or no room for the size, an interrupt
  2  the command line is wrong; nothing was done
  3  --verify found elements that differ
`

// exitCode tells how the program ends after err. What fails before a command
// starts to work can only be the command line.
func exitCode(err error, working bool) int {
	var mismatch *handoff.MismatchError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &mismatch):
		return exitMismatch
	case working:
		return exitFailed
	default:
		return exitUsage
	}
}
