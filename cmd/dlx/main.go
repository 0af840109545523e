package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/dlx-go/dlx/backends/all"
)

func main() {
	os.Exit(run(untilInterrupted(), all.New(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// untilInterrupted returns a context that ends with the first signal that asks the
// program to end, so that it leaves no half-made file. A second Ctrl-C ends the
// program at once. A second hang-up does not: the system and the shell may send one each.
func untilInterrupted() context.Context {
	// Those that are ignored stay so: of nohup, and of jobs in the background of a script.
	asking := slices.DeleteFunc([]os.Signal{syscall.SIGTERM, syscall.SIGHUP, os.Interrupt}, signal.Ignored)
	ctx, stop := signal.NotifyContext(context.Background(), asking...)
	context.AfterFunc(ctx, func() {
		signal.Ignore(syscall.SIGHUP)
		stop()
	})
	return ctx
}
