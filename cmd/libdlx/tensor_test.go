//go:build cgo

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Memory counts as unfinished while work reads or writes it, and after a write that has failed.
func TestUnfinishedWork(t *testing.T) {
	x, err := core.FromSlice(make([]float32, 4))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	read, write := stream.NewEvent(), stream.NewEvent()
	for _, step := range []struct {
		do   func()
		want bool
	}{
		{func() {}, false},
		{func() { b.Used(read) }, true},
		{func() { read.Complete(nil) }, false},
		{func() { b.Wrote(write) }, true},
		{func() { write.Complete(errors.New("planted")) }, true},
	} {
		step.do()
		if got := isUnfinished(x) == 1; got != step.want {
			t.Errorf("unfinished: %t, want %t", got, step.want)
		}
	}
	_ = x.WaitIdle(context.Background())
}
