//go:build cgo

package main

import (
	"context"
	"errors"
	"time"

	"github.com/dlx-go/dlx/core"
)

// pollInterval is how long a call waits before it calls dlx_poll, and between two calls of it.
const pollInterval = 50 * time.Millisecond

// polling runs call on another goroutine, and poll on this one about every pollInterval until call returns. poll is so
// called on the thread of the program. After poll has returned something other than 0 it is not called any more, and
// ctx of call ends: if call then fails with the error of ctx, polling returns one that wraps context.Canceled and says so.
func polling(ctx context.Context, call func(context.Context) error, poll func() int32) error {
	limited := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = defect(p)
			}
			ended <- err
		}()
		err = call(ctx)
	}()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	ticks := ticker.C
	var stopped int32
	for {
		select {
		case <-ticks:
			if stopped = poll(); stopped != 0 {
				ticks = nil
				cancel()
			}
		case err := <-ended:
			if stopped != 0 && limited.Err() == nil && errors.Is(err, context.Canceled) {
				return core.Errorf(context.Canceled, origin, "", "poll returned %d, and not 0: the call was stopped", stopped)
			}
			return err
		}
	}
}
