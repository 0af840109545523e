package core_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// The last write of memory whose parts were written one by one is done when all are, and fails if one does.
func TestPartsReportEveryError(t *testing.T) {
	first, second := errors.New("the first write failed"), errors.New("the second write failed")
	for name, c := range map[string]struct {
		errs []error
		want error
	}{
		"none":           {[]error{nil, nil, nil}, nil},
		"the first":      {[]error{first, nil, nil}, first},
		"one in between": {[]error{nil, second, nil}, second},
		"the last":       {[]error{nil, nil, second}, second},
		"two":            {[]error{first, second, nil}, first},
		"the only one":   {[]error{first}, first},
	} {
		x := keeper(t)(core.FromSlice([]int32{1, 2, 3}))
		b := bufferOf(t, x)
		end := privateCore.Parts(b)
		events := make([]*event, len(c.errs))
		for i, err := range c.errs {
			events[i] = newEvent()
			events[i].err = err
			b.Wrote(events[i])
			if i == 0 { // one that is done before the next begins
				close(events[i].c)
			}
		}
		end()
		e := b.Ready()
		for _, x := range events[1:] {
			if done, _ := e.Done(); done {
				t.Errorf("%s: done before all writes are", name)
			}
			if backendkit.UnwrapEvent(e) != core.Event(events[len(events)-1]) {
				t.Errorf("%s: a stream waits for %v, not for the last write", name, backendkit.UnwrapEvent(e))
			}
			close(x.c)
		}
		if err := x.WaitReady(context.Background()); err != c.want {
			t.Errorf("%s: the error is %v", name, err)
		}
		if e := b.Ready(); (e != nil) != (c.want != nil) {
			t.Errorf("%s: the last write is %v", name, e)
		}
		later := newEvent() // which overwrites everything
		close(later.c)
		b.Wrote(later)
		if err := x.WaitReady(context.Background()); err != nil {
			t.Errorf("%s: a later write: %v", name, err)
		}
	}
}
