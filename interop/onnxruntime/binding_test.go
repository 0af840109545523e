//go:build cgo && unix

package onnxruntime_test

import (
	"errors"
	"image"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/onnxruntime"
	"github.com/dlx-go/dlx/stream"
	"github.com/dlx-go/dlx/tensorfile"
	ort "github.com/yalue/onnxruntime_go"
)

func bind(t testing.TB, lib *onnxruntime.Library, s *ort.DynamicAdvancedSession) *onnxruntime.Binding {
	t.Helper()
	b, err := lib.Bind(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// All digits of the data set are classified, each as an image.Gray. ONNX Runtime reads the pixels of the images
// themselves and writes into a Go slice: neither has another address for it.
func TestClassify(t *testing.T) {
	lib := open(t)
	binding := bind(t, lib, session(t, classifier(digitMeans()), nil, nil))
	read := func(name, tensor string) *core.Tensor {
		file, err := tensorfile.Open(name, tensorfile.OpenOptions{})
		must(t, err)
		defer file.Close()
		return coretest.Keep(t)(file.Tensor(tensor))
	}
	digits, err := core.Values[float64](read("../../testdata/digits.npy", "digits"))
	must(t, err)
	targets, err := core.Values[int64](read("../../testdata/digits_target.npy", "digits_target"))
	must(t, err)

	picture := image.NewGray(image.Rect(0, 0, 8, 8))
	pixels := coretest.Keep(t)(core.FromSlice(picture.Pix, 1, 8, 8))
	class := make([]int64, 1)
	result := coretest.Keep(t)(core.FromSlice(class))
	must(t, binding.BindInput("image", pixels))
	must(t, binding.BindOutput("class", result))
	must(t, binding.AllocateOutput("scores", core.CPU))

	value, err := lib.Input(ctx, pixels) // as BindInput makes it
	must(t, err)
	if at, place, _, err := lib.Located(value); at != uintptr(unsafe.Pointer(&picture.Pix[0])) || place != "Cpu" || err != nil {
		t.Errorf("the image lies at %p, and ONNX Runtime reads %#x in %s, %v", &picture.Pix[0], at, place, err)
	}
	_ = value.Destroy()

	right := 0
	for n, want := range targets {
		for i := range picture.Pix {
			picture.Pix[i] = uint8(digits[n*64+i])
		}
		must(t, binding.Run(ctx, nil))
		if class[0] == want {
			right++
		}
		scores, err := binding.Output("scores")
		must(t, err)
		values, err := core.Values[float32](scores)
		must(t, err)
		if best := slices.Index(values, slices.Max(values)); int64(best) != class[0] {
			t.Fatalf("digit %d: scores %v, class %d", n, values, class[0])
		}
		scores.Close()
	}
	if right < len(targets)*85/100 || right == len(targets) {
		t.Errorf("%d of %d digits are right", right, len(targets))
	}
	t.Logf("%d of %d digits are right", right, len(targets))
	taken := coretest.Keep(t)(binding.Output("class"))
	if at, _ := taken.Address(); at != uintptr(unsafe.Pointer(&class[0])) {
		t.Error("the class was copied")
	}
}

// What ONNX Runtime allocates in one run stays as it is in the next one, and outlives the binding and the session.
func TestAllocatedOutputs(t *testing.T) {
	lib := open(t)
	b := bind(t, lib, session(t, doubling(ort.TensorElementDataTypeFloat, -1), nil, nil))
	keep := coretest.Keep(t)
	must(t, b.AllocateOutput("y", core.CPU))
	_, err := b.Output("y")
	coretest.WantError(t, err, core.ErrInvalid, "an output before the run")
	var results []*core.Tensor
	for n := range 4 {
		row := make([]float32, 3+n%2) // another shape, too
		row[0] = float32(n)
		must(t, b.BindInput("x", keep(core.FromSlice(row))))
		must(t, b.Run(ctx, nil))
		results = append(results, keep(b.Output("y")))
	}
	must(t, b.Close())
	must(t, b.Close())
	_, err = b.Output("y")
	coretest.WantError(t, err, core.ErrClosed, "an output of a closed binding")
	coretest.WantError(t, b.Run(ctx, nil), core.ErrClosed, "Run of a closed binding")
	coretest.WantError(t, b.BindInput("x", results[0]), core.ErrClosed, "BindInput of a closed binding")
	seen := map[uintptr]bool{}
	for n, y := range results {
		got, err := core.Values[float32](y)
		if err != nil || len(got) != 3+n%2 || got[0] != float32(2*n) {
			t.Errorf("run %d: %v, %v", n, got, err)
		}
		seen[uintptr(unsafe.Pointer(&got[0]))] = true
	}
	if len(seen) != len(results) {
		t.Error("two runs share memory")
	}
}

// A run that fails changes nothing in what is bound: the next one succeeds.
func TestRunFails(t *testing.T) {
	lib := open(t)
	b := bind(t, lib, session(t, doubling(ort.TensorElementDataTypeFloat, -1), nil, nil))
	keep := coretest.Keep(t)
	result := make([]float32, 2)
	must(t, b.BindOutput("y", keep(core.FromSlice(result))))
	coretest.WantError(t, b.Run(ctx, nil), core.ErrInvalid, "no input")
	must(t, b.BindInput("x", keep(core.FromSlice([]int64{1, 2}))))
	coretest.WantError(t, b.Run(ctx, nil), core.ErrInvalid, "an input of another type")
	must(t, b.BindInput("x", keep(core.FromSlice([]float32{1, 2, 3}))))
	coretest.WantError(t, b.Run(ctx, nil), core.ErrInvalid, "an output that is too small")
	coretest.WantError(t, b.BindInput("x", elsewhere(t, core.DeviceCUDA, 0)), core.ErrInvalid, "memory of a device without a provider")
	coretest.WantError(t, b.AllocateOutput("y", core.DeviceID{Type: core.DeviceOpenCL}), core.ErrNotSupported, "an output on OpenCL")
	coretest.WantError(t, b.BindOutput("y", keep(keep(core.FromSlice(result)).AsReadOnly())), core.ErrReadOnly, "a read-only output")
	coretest.WantError(t, b.BindInput("z", nil), core.ErrInvalid, "no tensor")
	must(t, b.BindInput("x", keep(core.FromSlice([]float32{1, 2}))))
	must(t, b.Run(ctx, nil))
	if !slices.Equal(result, []float32{2, 4}) {
		t.Error(result)
	}
}

// Run waits for a write to its input, and writers wait for Run.
func TestOrder(t *testing.T) {
	lib := open(t)
	b := bind(t, lib, session(t, doubling(ort.TensorElementDataTypeFloat, -1), nil, nil))
	keep := coretest.Keep(t)
	data, result := []float32{0}, []float32{0}
	x, y := keep(core.FromSlice(data)), keep(core.FromSlice(result))
	must(t, b.BindInput("x", x))
	must(t, b.BindOutput("y", y))

	queue := stream.NewQueue(nil)
	defer queue.Close()
	coretest.WantError(t, b.Run(ctx, queue), core.ErrNotSupported, "a stream on which no session computes")
	written := stream.NewEvent()
	buffer, err := x.Buffer()
	must(t, err)
	buffer.Wrote(written)
	started, done := make(chan struct{}), make(chan error)
	go func() {
		close(started)
		done <- b.Run(ctx, nil)
	}()
	<-started
	data[0] = 21
	written.Complete(nil)
	must(t, <-done)
	if result[0] != 42 {
		t.Error(result)
	}

	lost := stream.NewEvent()
	lost.Complete(core.Errorf(core.ErrDeviceLost, "test", "write", "the device is gone"))
	buffer.Wrote(lost)
	if err := b.Run(ctx, nil); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("%v; want the error of the write", err)
	}
}

// Many goroutines share a session, a library and a tensor, each with its own binding, while values come and go.
func TestHammer(t *testing.T) {
	lib := open(t)
	s := session(t, doubling(ort.TensorElementDataTypeFloat, -1), nil, nil)
	shared := coretest.Keep(t)(core.FromSlice([]float32{1, 2, 3}))
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			b, err := lib.Bind(s)
			if err != nil {
				t.Error(err)
				return
			}
			defer b.Close()
			if err := errors.Join(b.BindInput("x", shared), b.AllocateOutput("y", core.CPU)); err != nil {
				t.Error(err)
				return
			}
			for range 50 {
				own, err := core.FromSlice([]float32{float32(n)})
				if err != nil {
					t.Error(err)
					return
				}
				v, err := lib.Input(ctx, own)
				own.Close()
				if err != nil {
					t.Error(err)
					return
				}
				back, err := lib.Tensor(v)
				if err == nil {
					err = errors.Join(b.BindInput("x", back), b.Run(ctx, nil), b.BindInput("x", shared))
					back.Close()
				}
				y, err2 := b.Output("y")
				if err = errors.Join(err, err2); err != nil {
					t.Error(err)
					return
				}
				if got, err := core.Values[float32](y); err != nil || len(got) != 1 || got[0] != float32(2*n) {
					t.Errorf("%v, %v; want %d", got, err, 2*n)
				}
				y.Close()
			}
		})
	}
	wg.Wait()
}

func TestLibrary(t *testing.T) {
	if lib, err := onnxruntime.Open("/no/such/library.so"); !errors.Is(err, core.ErrNotSupported) {
		t.Error(lib, err)
	}
	first := open(t)
	second := open(t)
	if lib, err := onnxruntime.Open("libc.so.6"); !errors.Is(err, core.ErrVersion) {
		t.Error(lib, err)
	}
	must(t, first.Close())
	must(t, first.Close())
	_, err := first.Bind(nil)
	coretest.WantError(t, err, core.ErrInvalid, "no session")
	_, err = first.Input(ctx, coretest.Keep(t)(core.FromSlice([]float32{1})))
	coretest.WantError(t, err, core.ErrClosed, "Input of a closed library")
	_ = session(t, doubling(ort.TensorElementDataTypeFloat, 1), nil, nil) // the environment is still there
	_, err = onnxruntime.StreamOptions(nil)
	coretest.WantError(t, err, core.ErrInvalid, "no stream")
	queue := stream.NewQueue(nil)
	defer queue.Close()
	_, err = onnxruntime.StreamOptions(queue)
	coretest.WantError(t, err, core.ErrNotSupported, "a queue on the host")
	_ = second
}

// simulated is a stream that claims to be one of CUDA: a queue on the host with a handle.
type simulated struct {
	*stream.Queue
	device core.Device
}

func (s simulated) Device() core.Device { return s.device }
func (s simulated) Native() uintptr     { return 0xc0ffee }

type simulatedDevice struct{ core.Device }

func (simulatedDevice) ID() core.DeviceID { return core.DeviceID{Type: core.DeviceCUDA, Index: 1} }

// The options name the stream's device and handle, in decimal as ONNX Runtime reads them. Run with a stream still waits
// on the host for tensors there. Simulated: no session computes on this stream.
func TestStream(t *testing.T) {
	s := simulated{stream.NewQueue(nil), simulatedDevice{}}
	defer s.Close()
	options, err := onnxruntime.StreamOptions(s)
	must(t, err)
	if len(options) != 2 || options["device_id"] != "1" || options["user_compute_stream"] != "12648430" {
		t.Error(options)
	}
	lib := open(t)
	b := bind(t, lib, session(t, doubling(ort.TensorElementDataTypeFloat, -1), nil, nil))
	data := []float32{0}
	x := coretest.Keep(t)(core.FromSlice(data))
	written := stream.NewEvent()
	buffer, err := x.Buffer()
	must(t, err)
	buffer.Wrote(written)
	must(t, b.BindInput("x", x))
	must(t, b.AllocateOutput("y", core.CPU))
	done := make(chan error)
	go func() { done <- b.Run(ctx, s) }()
	data[0] = 21
	written.Complete(nil)
	must(t, <-done)
	y := coretest.Keep(t)(b.Output("y"))
	if got, err := core.Values[float32](y); err != nil || got[0] != 42 {
		t.Error(got, err)
	}
}
