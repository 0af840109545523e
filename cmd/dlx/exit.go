package main

import (
	"errors"

	"github.com/dlx-go/dlx/cmd/dlx/internal/move"
	"github.com/dlx-go/dlx/remote"
)

// The exit codes. The help text of dlx lists them.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitMismatch  = 3
	exitNotJudged = 4
)

const exitHelp = `
Exit codes:
  0  success
  1  the work failed. Examples: a bad file, a missing device, an interrupt, or a plan
     that finds no way or not enough memory
  2  the command line is wrong; nothing was done
  3  --verify found elements that differ
  4  bench healthcheck judged nothing
`

// exitCode returns the exit code for err. An error before the work begins is one in the command
// line.
func exitCode(err error, working bool) int {
	var mismatch *move.MismatchError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &mismatch), errors.As(err, new(differsError)), errors.As(err, new(*remote.ChangedError)):
		return exitMismatch
	case errors.As(err, new(notJudgedError)):
		return exitNotJudged
	case working:
		return exitFailed
	default:
		return exitUsage
	}
}
