//go:build unix || windows

package cpu

import "github.com/dlx-go/dlx/backends/internal/external"

// systemError returns the error of a system call that failed with err. format and args say what the call was
// for.
func systemError(sentinel error, call string, err error, format string, args ...any) error {
	return external.SystemError(sentinel, "cpu", call, err, format, args...)
}
