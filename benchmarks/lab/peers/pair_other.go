//go:build !linux

package main

import (
	"context"
	"io"
)

// pair is two processes that share memory, which dlx does by memfds, on Linux.
type pair struct{}

func newPair(context.Context, *bench) (*pair, error) {
	return nil, notSupported("dlx shares memory of the host between processes on Linux only")
}

func (*pair) close() {}

func (*pair) wordLatency(context.Context, int64) (float64, error)   { return 0, nil }
func (*pair) socketLatency(context.Context, int64) (float64, error) { return 0, nil }
func (*pair) inPlace(context.Context, int64) (float64, error)       { return 0, nil }
func (*pair) copiedOut(context.Context, int64) (float64, error)     { return 0, nil }
func (*pair) openCold(context.Context, int64) (float64, error)      { return 0, nil }
func (*pair) openWarm(context.Context, int64) (float64, error)      { return 0, nil }

func serveOther(context.Context, *bench, io.Writer) int { return 2 }
