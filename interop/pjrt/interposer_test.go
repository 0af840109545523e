//go:build cgo && unix

package pjrt_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/pjrt"
	"github.com/dlx-go/dlx/interop/pjrt/internal/interposer"
	xla "github.com/gomlx/go-xla/pjrt"
)

var theInterposer = sync.OnceValues(func() (interposer.Interposer, error) {
	api, err := pjrt.APIOf(client)
	if err != nil {
		return interposer.Interposer{}, err
	}
	return interposer.Before(api), nil
})

// result makes a buffer of PJRT.
func result() (*xla.Buffer, error) {
	return client.BufferFromHost().FromFlatDataWithDimensions([]float32{1, 2, 3, 4, 5, 6}, []int{2, 3}).Done()
}

// Each function of the plugin that the package calls itself fails once, for a buffer that is written and for one that is
// not. Errors are typed, nothing stays open, and what fails leaves the buffer to the caller.
func TestEveryCallMayFail(t *testing.T) {
	w, err := theInterposer()
	must(t, err)
	var failed []string
	for _, unready := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d times not written", unready), func(t *testing.T) {
			failed = append(failed, coretest.EachCall{Faults: w, Code: 13, Life: func(ctx context.Context) error { // INTERNAL
				w.NotReady(unready)
				defer w.NotReady(0)
				l := coretest.Life{Context: ctx}
				b, err := result()
				must(t, err)
				x, err := pjrt.TensorThrough(w.Table, b)
				if !l.OK(err) {
					must(t, b.Destroy())
					return l.End()
				}
				l.Tensor(x, nil)
				if got, err := core.ToSlice[float32](ctx, x); l.OK(err) && !slices.Equal(got, []float32{1, 2, 3, 4, 5, 6}) {
					l.OK(fmt.Errorf("no call failed, but the elements are %v", got))
				}
				return l.End()
			}}.Run(t)...)
		})
	}
	for call := range w.Calls() {
		if !slices.Contains(failed, call) {
			t.Errorf("%s did not fail in the program", call)
		}
	}
	if len(w.Calls()) != 9 {
		t.Errorf("called: %v", w.Calls())
	}
}

// A buffer that is not written yet becomes a tensor with an event, and readers get the elements.
func TestNotReady(t *testing.T) {
	w, err := theInterposer()
	must(t, err)
	w.NotReady(1)
	b, err := result()
	must(t, err)
	awaited := w.Calls()["PJRT_Event_Await"]
	x := coretest.Keep(t)(pjrt.TensorThrough(w.Table, b))
	must(t, x.WaitReady(ctx))
	if x.Ready() != nil || w.Calls()["PJRT_Event_Await"] != awaited+1 {
		t.Errorf("the event was awaited %d times", w.Calls()["PJRT_Event_Await"]-awaited)
	}
	if got, err := core.Values[float32](x); err != nil || got[5] != 6 {
		t.Error(got, err)
	}
}
