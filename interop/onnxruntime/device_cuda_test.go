//go:build cuda && linux && cgo

package onnxruntime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
	"github.com/dlx-go/dlx/interop/onnxruntime"
	"github.com/dlx-go/dlx/interop/onnxruntime/internal/interposer"
	ort "github.com/yalue/onnxruntime_go"
)

// card opens a device of CUDA and makes a session with a provider for it, which computes on the stream: the interposer's, which
// copies the input to the output.
func card(t *testing.T) (*interposer.Interposer, *onnxruntime.Library, *ort.DynamicAdvancedSession, core.Device, core.Stream) {
	t.Helper()
	b := cuda.New()
	coretest.NeedDriver(t, b.Probe(ctx).Reason, "the driver of a card, or name the simulated one (make gpusim) as scripts/software-drivers.sh does")
	w, lib := openInterposer(t)
	d, err := b.Open(ctx, core.DeviceID{Type: core.DeviceCUDA})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	s, err := d.NewStream(ctx)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })

	options, err := onnxruntime.StreamOptions(s)
	must(t, err)
	provider, err := ort.NewCUDAProviderOptions()
	must(t, err)
	defer provider.Destroy()
	must(t, provider.Update(options))
	ofSession, err := ort.NewSessionOptions()
	must(t, err)
	defer ofSession.Destroy()
	must(t, ofSession.AppendExecutionProviderCUDA(provider))
	session, err := ort.NewDynamicAdvancedSessionWithONNXData(doubling(ort.TensorElementDataTypeFloat, -1), nil, nil, ofSession)
	must(t, err)
	t.Cleanup(func() { must(t, session.Destroy()) })
	return w, lib, session, d, s
}

func empty(d core.Device) (*core.Tensor, error) {
	return core.Empty(ctx, d, core.TypeFloat32, []int64{3}, core.AllocOptions{})
}

// A session on a card reads and writes the memory of tensors, after work on them that is not done: with the session's
// stream the card waits, and without one the program does.
func TestCardOrder(t *testing.T) {
	w, lib, session, d, s := card(t)
	sim, err := gpusim.Open()
	if err != nil {
		t.Skipf("only a simulated card can be held: %v", err)
	}
	keep := coretest.Keep(t)
	writer, err := d.NewStream(ctx)
	must(t, err)
	defer writer.Close()
	x, y := keep(empty(d)), keep(empty(d))
	b := bind(t, lib, session)
	must(t, b.BindInput("x", x))
	must(t, b.BindOutput("y", y))

	write := func(values []float32) {
		t.Helper()
		sim.Hold(true)
		must(t, d.Copy(ctx, writer, x, keep(core.FromSlice(values))))
	}
	defer sim.Hold(false)
	write([]float32{1, 2, 3})
	runs := w.Calls()["RunWithBinding"]
	early, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.Run(early, nil); !errors.Is(err, context.Canceled) || w.Calls()["RunWithBinding"] != runs {
		t.Fatalf("without a stream the session runs before its input is there: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx, s) }()
	for end := time.Now().Add(time.Minute); w.Calls()["RunWithBinding"] == runs; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("with its stream the session waits for its input on the host")
		}
	}
	sim.Hold(false)
	must(t, <-done)
	if got, err := core.ToSlice[float32](ctx, y); err != nil || !slices.Equal(got, []float32{1, 2, 3}) {
		t.Fatalf("%v, %v", got, err)
	}

	write([]float32{4, 5, 6})
	go func() { done <- b.Run(ctx, nil) }()
	sim.Hold(false)
	must(t, <-done)
	if got, err := core.ToSlice[float32](ctx, y); err != nil || !slices.Equal(got, []float32{4, 5, 6}) {
		t.Fatalf("%v, %v", got, err)
	}
}

// Each call of ONNX Runtime fails once in a program that runs a session on a card.
func TestEveryCallOnACardMayFail(t *testing.T) {
	w, _, session, d, s := card(t)
	life := func(ctx context.Context) error { return cardLife(ctx, w.Path, session, d, s) }
	failed := coretest.EachCall{Faults: w, Code: 6, Life: life}.Run(t) // ORT_RUNTIME_EXCEPTION
	for _, call := range []string{"BindInput", "BindOutput", "BindOutputToDevice", "GetBoundOutputValues", "RunWithBinding"} {
		if !slices.Contains(failed, call) {
			t.Errorf("%s did not fail in the program", call)
		}
	}
}

func cardLife(ctx context.Context, path string, session *ort.DynamicAdvancedSession, d core.Device, s core.Stream) error {
	l := coretest.Life{Context: ctx}
	lib, err := onnxruntime.Open(path)
	if !l.Opened(lib, err) {
		return l.End()
	}
	x, y := l.Tensor(empty(d)), l.Tensor(empty(d))
	b, err := lib.Bind(session)
	if x == nil || y == nil || !l.Copy(d, s, x, l.Tensor(core.FromSlice([]float32{1, 2, 3}))) || !l.Opened(b, err) {
		return l.End()
	}
	ran := l.OK(b.BindInput("x", x)) && l.OK(b.BindOutput("y", y)) && l.OK(b.Run(ctx, s))
	if ran {
		if got, err := core.ToSlice[float32](ctx, y); l.OK(err) && !slices.Equal(got, []float32{1, 2, 3}) {
			l.OK(fmt.Errorf("no call failed, but the result is %v", got))
		}
	}
	if l.OK(b.AllocateOutput("y", d.ID())) && l.OK(b.Run(ctx, s)) {
		if z := l.Tensor(b.Output("y")); z != nil && z.DeviceID() != d.ID() {
			l.OK(fmt.Errorf("no call failed, but the output is on %v", z.DeviceID()))
		}
	}
	return l.End()
}
