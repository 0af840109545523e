package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/dlx-go/dlx/backends/all"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, all.New(), os.Args[1:], os.Stdout, os.Stderr))
}
