//go:build cgo

package main

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// reporting runs load, which uses the options, on another goroutine, and calls progress on this one with what has been
// read, until it returns something other than 0. Then it ends the load, and returns an error that wraps context.Canceled.
// progress is so called on the thread of the program, and a slow one does not hold up the threads that read.
func reporting(ctx context.Context, options *tensorfile.LoadOptions, load func(context.Context) (*tensorfile.Loaded, error),
	progress func(done, total int64) int32,
) (*tensorfile.Loaded, error) {
	type report struct{ done, total int64 }
	type result struct {
		loaded *tensorfile.Loaded
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	latest, ended := make(chan report, 1), make(chan result, 1)
	options.Progress = func(done, total int64) { // calls do not overlap, so that there is room after the first select
		select {
		case <-latest:
		default:
		}
		latest <- report{done, total}
	}
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = defect(p)
			}
			ended <- r
		}()
		r.loaded, r.err = load(ctx)
	}()
	var stopped int32
	call := func(r report) {
		if stopped == 0 {
			if stopped = progress(r.done, r.total); stopped != 0 {
				cancel()
			}
		}
	}
	for {
		select {
		case r := <-latest:
			call(r)
		case r := <-ended:
			select {
			case last := <-latest:
				if r.err == nil {
					call(last)
				}
			default:
			}
			if stopped == 0 {
				return r.loaded, r.err
			}
			if r.err == nil {
				_ = r.loaded.Close()
			}
			return nil, core.Errorf(context.Canceled, origin, "dlx_load", "progress returned %d, and not 0: the load was stopped", stopped)
		}
	}
}
