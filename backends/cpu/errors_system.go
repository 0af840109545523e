//go:build unix || windows

package cpu

import (
	"errors"
	"syscall"

	"github.com/dlx-go/dlx/core"
)

// systemError says that a system call failed with err; format and args tell what for.
func systemError(sentinel error, call string, err error, format string, args ...any) error {
	e := core.Errorf(sentinel, "cpu", call, format, args...)
	e.Detail += ": " + err.Error()
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Code = int64(errno)
	}
	return e
}
