package main

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/dlx-go/dlx/cmd/dlx/internal/move"
	"github.com/dlx-go/dlx/core"
)

// errorResult is an error in the JSON document of a command that failed.
type errorResult struct {
	Kind    string `json:"kind"`    // one of errorKinds, or the words below
	Backend string `json:"backend"` // the part of dlx, the API or the file format that failed; empty if not known
	Call    string `json:"call"`    // the call that failed; empty if not known
	Code    int64  `json:"code"`    // the error number of the API or the system; 0 if not known
	Message string `json:"message"` // the whole text, as in the log
}

// The kinds of errors that are not in errorKinds.
const (
	kindUsage       = "usage"       // the command line is wrong
	kindMismatch    = "mismatch"    // --verify found elements that differ
	kindNotJudged   = "not judged"  // bench healthcheck compared nothing with a limit
	kindInterrupted = "interrupted" // a signal ended the work
	kindFailed      = "failed"      // any other error
)

// errorKinds are the sentinel errors of package core. The kind of an error is their text.
var errorKinds = []error{
	core.ErrNotSupported, core.ErrClosed, core.ErrVersion, core.ErrLayout, core.ErrDType, core.ErrReadOnly,
	core.ErrDevice, core.ErrDeviceLost, core.ErrOutOfMemory, core.ErrInvalid, core.ErrExists,
}

// newErrorResult describes err, nil if err is nil. If working is not set, err is an error in the
// command line.
func newErrorResult(err error, working bool) *errorResult {
	if err == nil {
		return nil
	}
	r := &errorResult{Kind: kindFailed, Message: validError{err}.Error()}
	var own *core.Error
	var system *fs.PathError
	var mismatch *move.MismatchError
	switch {
	case !working:
		r.Kind, r.Message = kindUsage, textEscape(usageText(err))
		return r
	case errors.As(err, &mismatch), errors.As(err, new(differsError)):
		r.Kind = kindMismatch
		return r
	case errors.As(err, new(notJudgedError)):
		r.Kind = kindNotJudged
		return r
	case errors.Is(err, context.Canceled):
		r.Kind = kindInterrupted
		return r
	case errors.As(err, &own):
		r.Backend, r.Call, r.Code = own.Backend, own.Call, own.Code
	case errors.As(err, &system):
		r.Call = system.Op
	}
	for _, kind := range errorKinds {
		if errors.Is(err, kind) {
			r.Kind = kind.Error()
			break
		}
	}
	var number syscall.Errno
	if r.Code == 0 && errors.As(err, &number) {
		r.Code = int64(number)
	}
	return r
}
