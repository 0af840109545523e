package triton

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlx-go/dlx/core"
)

// ErrUnavailable means that no server answered: it does not run, is not reachable, or the connection broke. It wraps
// core.ErrClosed. A request that failed so may have run.
var ErrUnavailable = fmt.Errorf("no answer of a server: %w", core.ErrClosed)

// answeredError reports whether err is an answer of the server, and not the end of a context or of a connection.
func answeredError(err error) bool {
	return err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// serverError is an error that the server answered with, or one of the connection.
func serverError(call string, sentinel error, code int64, detail string) error {
	const longest = 2000 // bytes of a text that the server chooses
	if len(detail) > longest {
		detail = detail[:longest] + "..."
	}
	e := core.Errorf(sentinel, backend, call, "%s", detail)
	e.Code = code
	return e
}

// named returns err with the name of the call, unless it has one.
func named(call string, err error) error {
	var e *core.Error
	if err == nil || errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return core.Errorf(err, backend, call, "")
}
