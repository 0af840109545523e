//go:build cgo && unix

package onnxruntime_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/onnxruntime"
	"github.com/dlx-go/dlx/interop/onnxruntime/internal/interposer"
	ort "github.com/yalue/onnxruntime_go"
)

// theInterposer is built once. Its folder is removed by the system: the library stays open.
var theInterposer = sync.OnceValues(func() (*interposer.Interposer, error) {
	folder, err := os.MkdirTemp("", "dlx-interposer")
	if err != nil {
		return nil, err
	}
	return interposer.Build("internal/interposer", folder, libraryPath)
})

// openInterposer makes onnxruntime_go use the interposer until the end of the test.
func openInterposer(t *testing.T) (*interposer.Interposer, *onnxruntime.Library) {
	t.Helper()
	w, err := theInterposer()
	must(t, err)
	lib, err := onnxruntime.Open(w.Path)
	must(t, err)
	t.Cleanup(func() {
		must(t, lib.Close())
		if live := w.Live(); len(live) != 0 {
			t.Errorf("open at ONNX Runtime: %v", live)
		}
	})
	return w, lib
}

// Each call of ONNX Runtime fails once, at each place where it is called, in a program that uses everything on the host.
// Errors are typed, and nothing stays open.
func TestEveryCallMayFail(t *testing.T) {
	w, _ := openInterposer(t)
	s := session(t, doubling(ort.TensorElementDataTypeFloat, -1), nil, nil)
	failed := coretest.EachCall{Faults: w, Code: 6, Life: func(ctx context.Context) error { // ORT_RUNTIME_EXCEPTION
		return hostLife(ctx, w.Path, s)
	}}.Run(t)
	for _, call := range []string{
		"AllocatorFree", "BindInput", "BindOutput", "BindOutputToDevice", "CreateIoBinding", "CreateMemoryInfo",
		"CreateTensorWithDataAsOrtValue", "GetAllocatorWithDefaultOptions", "GetBoundOutputValues", "GetDimensions",
		"GetDimensionsCount", "GetTensorElementType", "GetTensorMemoryInfo", "GetTensorMutableData", "GetTensorSizeInBytes",
		"GetTensorTypeAndShape", "IsTensor", "MemoryInfoGetId", "MemoryInfoGetName", "RunWithBinding",
	} {
		if !slices.Contains(failed, call) {
			t.Errorf("%s did not fail in the program", call)
		}
	}
}

func hostLife(ctx context.Context, path string, s *ort.DynamicAdvancedSession) error {
	l := coretest.Life{Context: ctx}
	lib, err := onnxruntime.Open(path)
	if !l.Opened(lib, err) {
		return l.End()
	}
	x, y := l.Tensor(core.FromSlice([]float32{1, 2, 3})), l.Tensor(core.FromSlice(make([]float32, 3)))
	if v, err := lib.Input(ctx, x); l.OK(err) {
		if back, err := lib.Tensor(v); l.OK(err) {
			l.OK(back.Close())
		} else {
			l.OK(v.Destroy())
		}
	}
	if v, err := lib.Output(ctx, y); l.OK(err) {
		l.OK(v.Destroy())
	}
	b, err := lib.Bind(s)
	if !l.Opened(b, err) {
		return l.End()
	}
	if l.OK(b.BindInput("x", x)) && l.OK(b.BindOutput("y", y)) && l.OK(b.Run(ctx, nil)) {
		if got, err := core.ToSlice[float32](ctx, y); l.OK(err) && !slices.Equal(got, []float32{2, 4, 6}) {
			l.OK(fmt.Errorf("no call failed, but the result is %v", got))
		}
	}
	for range 2 {
		if l.OK(b.AllocateOutput("y", core.CPU)) && l.OK(b.Run(ctx, nil)) {
			l.Tensor(b.Output("y"))
		}
	}
	return l.End()
}

// A nil pointer in an interface is refused, not called.
func TestNoValue(t *testing.T) {
	lib := open(t)
	_, err := lib.Tensor((*ort.Tensor[float32])(nil))
	coretest.WantError(t, err, core.ErrInvalid, "a nil pointer")
}
