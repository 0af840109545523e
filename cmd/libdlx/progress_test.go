//go:build cgo

package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/tensorfile"
)

// A load that goes on is ended when progress asks for it, and what a complete one has loaded is closed.
func TestProgressStopsALoad(t *testing.T) {
	for name, complete := range map[string]bool{"in the middle": false, "at the end": true} {
		t.Run(name, func(t *testing.T) {
			var options tensorfile.LoadOptions
			var x *core.Tensor
			loaded, err := reporting(t.Context(), &options, func(ctx context.Context) (*tensorfile.Loaded, error) {
				options.Progress(1, 2)
				if !complete {
					<-ctx.Done() // for ever, if nothing ends it
					return nil, ctx.Err()
				}
				var err error
				x, err = core.FromSlice([]int32{1}, 1)
				return &tensorfile.Loaded{Tensors: map[string]*core.Tensor{"x": x}}, err
			}, func(int64, int64) int32 { return 3 })
			if loaded != nil || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "returned 3") {
				t.Errorf("the result is %v, %v", loaded, err)
			}
			if complete {
				if _, err := x.Share(); !errors.Is(err, core.ErrClosed) {
					t.Errorf("what was loaded is open: %v", err)
				}
			}
		})
	}
}

// A slow progress is told the newest state, and always the last one.
func TestProgressIsToldTheLastState(t *testing.T) {
	var options tensorfile.LoadOptions
	var told []int64
	reported := make(chan struct{})
	loaded, err := reporting(t.Context(), &options, func(context.Context) (*tensorfile.Loaded, error) {
		for done := range int64(1000) {
			options.Progress(done+1, 1000)
		}
		close(reported)
		return &tensorfile.Loaded{}, nil
	}, func(done, _ int64) int32 {
		told = append(told, done)
		<-reported // the load must not wait for this
		return 0
	})
	if loaded == nil || err != nil || len(told) > 2 || !slices.IsSorted(told) || told[len(told)-1] != 1000 {
		t.Errorf("progress was told %v; the result is %v, %v", told, loaded, err)
	}
}

// A panic in a load is an error of it, and ends no process.
func TestAPanicOfALoadIsAnError(t *testing.T) {
	_, err := reporting(t.Context(), &tensorfile.LoadOptions{}, func(context.Context) (*tensorfile.Loaded, error) { panic("planted") },
		func(int64, int64) int32 { return 0 })
	if err == nil || !strings.Contains(err.Error(), "planted") {
		t.Errorf("the error is %v", err)
	}
}
