package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"github.com/dlx-go/dlx/backends/all"
)

func main() {
	a := &app{registry: all.New(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	if runtime.GOOS != "windows" { // where benchmarks have no processes of their own
		a.executable, _ = os.Executable() // without it, this process measures
	}
	os.Exit(a.run(untilInterrupted(), os.Args[1:]))
}

// untilInterrupted returns a context that ends at the first signal to end the program, so that
// the program can remove incomplete files. A second interrupt (Ctrl-C) ends the program at once.
// A second hang-up signal does not, because the system and the shell may each send one.
func untilInterrupted() context.Context {
	// Signals that are ignored stay ignored, such as those of nohup and of background jobs.
	asking := slices.DeleteFunc([]os.Signal{syscall.SIGTERM, syscall.SIGHUP, os.Interrupt}, signal.Ignored)
	ctx, stop := signal.NotifyContext(context.Background(), asking...)
	context.AfterFunc(ctx, func() {
		signal.Ignore(syscall.SIGHUP)
		stop()
	})
	return ctx
}
