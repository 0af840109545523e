//go:build unix || windows

package cpu

import "github.com/dlx-go/dlx/backends/internal/external"

// systemError says that a system call failed with err; format and args tell what for.
func systemError(sentinel error, call string, err error, format string, args ...any) error {
	return external.SystemError(sentinel, "cpu", call, err, format, args...)
}
