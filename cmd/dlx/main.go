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
