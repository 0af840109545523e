//go:build !linux

package doctor

import (
	"context"
	"io/fs"
	"os/exec"

	"github.com/dlx-go/dlx/core"
)

func missing(call string) error {
	return core.Errorf(core.ErrNotSupported, "doctor", call, "ways between processes are examined on Linux only")
}

// Pair is for Linux.
func Pair(context.Context, func(context.Context) *exec.Cmd, Options) (Result, error) {
	return Result{}, missing("Pair")
}

// Serve is for Linux.
func Serve(context.Context, int, Options) error { return missing("Serve") }

// Listen is for Linux.
func Listen(context.Context, string, fs.FileMode, Options, func(Credentials, error)) error {
	return missing("Listen")
}

// Dial is for Linux.
func Dial(context.Context, string, Options) (Result, error) { return Result{}, missing("Dial") }

// Process is for Linux.
func Process(context.Context, int, Options) (Result, error) { return Result{}, missing("Process") }
