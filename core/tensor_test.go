package core_test

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// owner counts how often memory is given back.
type owner struct{ freed atomic.Int32 }

func (o *owner) Free() { o.freed.Add(1) }

// hostMemory is Go memory with an owner that counts.
func hostMemory(n int) (core.Memory, *owner) {
	t, err := core.FromSlice(make([]byte, n))
	if err != nil {
		panic(err)
	}
	a, err := t.Address()
	if err != nil {
		panic(err)
	}
	o := &owner{}
	return core.Memory{ID: core.CPU, Handle: a, Size: int64(n), Owner: ownerOf{o, t}}, o
}

type ownerOf struct {
	*owner
	t *core.Tensor
}

func (o ownerOf) Free() {
	o.owner.Free()
	o.t.Close()
}

func mustClose(t testing.TB, ts ...*core.Tensor) {
	t.Helper()
	for _, v := range ts {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
}

// keeper returns a function that closes a tensor when the test ends.
func keeper(t *testing.T) func(*core.Tensor, error) *core.Tensor {
	return func(v *core.Tensor, err error) *core.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { v.Close() })
		return v
	}
}

func TestMemoryIsFreedWithTheLastView(t *testing.T) {
	m, o := hostMemory(24)
	a, err := core.Wrap(m, core.Spec{DType: core.TypeFloat32, Shape: []int64{2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	views := []*core.Tensor{}
	for _, make := range []func() (*core.Tensor, error){
		a.Share, a.Transpose, a.AsReadOnly,
		func() (*core.Tensor, error) { return a.Slice(1, 2, -1, -1) },
		func() (*core.Tensor, error) { return a.Index(0, 1) },
		func() (*core.Tensor, error) { return a.Reshape(-1) },
		func() (*core.Tensor, error) { return a.Expand(0) },
		func() (*core.Tensor, error) { return a.Squeeze() },
		func() (*core.Tensor, error) { return a.Broadcast(4, 2, 3) },
	} {
		v, err := make()
		if err != nil {
			t.Fatal(err)
		}
		views = append(views, v)
	}
	mustClose(t, a, a, a) // idempotent: takes no view's share
	for _, v := range views {
		if n := o.freed.Load(); n != 0 {
			t.Fatalf("freed %d times while a view is open", n)
		}
		mustClose(t, v, v)
	}
	if n := o.freed.Load(); n != 1 {
		t.Errorf("freed %d times, want once", n)
	}
}

func TestFailedWrapLeavesTheOwnerToTheCaller(t *testing.T) {
	before := core.Live()
	m, o := hostMemory(24)
	for name, c := range map[string]struct {
		change func(*core.Memory, *core.Spec)
		want   error
	}{
		"element type without size":    {func(_ *core.Memory, s *core.Spec) { s.DType.Lanes = 0 }, core.ErrDType},
		"negative extent":              {func(_ *core.Memory, s *core.Spec) { s.Shape = []int64{-1} }, core.ErrLayout},
		"one element too many":         {func(_ *core.Memory, s *core.Spec) { s.Shape = []int64{7} }, core.ErrLayout},
		"offset moves the end out":     {func(_ *core.Memory, s *core.Spec) { s.Offset = 4 }, core.ErrLayout},
		"negative offset":              {func(_ *core.Memory, s *core.Spec) { s.Offset = -4 }, core.ErrLayout},
		"negative stride before start": {func(_ *core.Memory, s *core.Spec) { s.Strides = []int64{-3, -1}; s.Offset = 16 }, core.ErrLayout},
		"stride leaves":                {func(_ *core.Memory, s *core.Spec) { s.Strides = []int64{4, 1} }, core.ErrLayout},
		"no memory":                    {func(m *core.Memory, _ *core.Spec) { m.Handle = 0 }, core.ErrInvalid},
		"offsets overflow":             {func(m *core.Memory, s *core.Spec) { m.Offset, s.Offset, m.Size = math.MaxInt64, 1, core.UnknownSize }, core.ErrLayout},
		"bytes overflow":               {func(m *core.Memory, s *core.Spec) { s.Shape, m.Size = []int64{1 << 61}, core.UnknownSize }, core.ErrLayout},
		"end overflows": {func(m *core.Memory, s *core.Spec) {
			s.Shape, m.Size, s.Offset = []int64{1 << 60}, core.UnknownSize, math.MaxInt64-100
		}, core.ErrLayout},
		"address space ends before the elements": {func(m *core.Memory, _ *core.Spec) {
			m.Handle, m.Size = ^uintptr(0)-15, core.UnknownSize
		}, core.ErrLayout},
		"address space begins behind the elements": {func(m *core.Memory, s *core.Spec) {
			m.Handle, m.Size, s.Strides = 16, core.UnknownSize, []int64{-3, -1}
		}, core.ErrLayout},
	} {
		m, s := m, core.Spec{DType: core.TypeFloat32, Shape: []int64{2, 3}}
		c.change(&m, &s)
		v, err := core.Wrap(m, s)
		var typed *core.Error
		if v != nil || !errors.Is(err, c.want) || !errors.As(err, &typed) {
			t.Errorf("%s: %v, %v; want %v", name, v, err, c.want)
		}
	}
	if o.freed.Load() != 0 {
		t.Error("a failed Wrap freed the memory")
	}
	m.Free()
	// Buffers of tests before may still be freed meanwhile.
	if after := core.Live(); after["core.Tensor"] > before["core.Tensor"] || after["core.Buffer"] > before["core.Buffer"] {
		t.Errorf("live objects %v, before %v", after, before)
	}
}

func TestNegativeStridesReachBackToTheFirstByte(t *testing.T) {
	m, _ := hostMemory(24)
	v, err := core.Wrap(m, core.Spec{DType: core.TypeFloat32, Shape: []int64{2, 3}, Strides: []int64{-3, -1}, Offset: 20})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, v)
}

// The distance in bits overflows an int64, the distance in bytes does not.
func TestViewsFarFromTheFirstElementLieWhereTheyShould(t *testing.T) {
	v, err := core.Wrap(core.Memory{ID: core.CPU, Handle: 4096, Size: core.UnknownSize}, core.Spec{DType: core.TypeFloat32, Shape: []int64{1 << 60}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := v.Slice(0, 1<<59+1, 1<<60, 1)
	if err != nil {
		t.Fatal(err)
	}
	if w.Offset() != 1<<61+4 {
		t.Errorf("the view lies at byte %d, want %d", w.Offset(), int64(1<<61+4))
	}
	mustClose(t, v, w)
}

// NumPy's a[::-1] is such a tensor: its rows lie before the data pointer.
func TestViewsBeginBeforeMemoryOfUnknownSize(t *testing.T) {
	numbers := []int32{0, 1, 2, 3, 4, 5, 6, 7}
	base, err := core.FromSlice(numbers)
	if err != nil {
		t.Fatal(err)
	}
	address, err := base.Address()
	if err != nil {
		t.Fatal(err)
	}
	m := core.Memory{ID: core.CPU, Handle: address + 6*4, Size: core.UnknownSize}
	v, err := core.Wrap(m, core.Spec{DType: core.TypeInt32, Shape: []int64{4, 2}, Strides: []int64{-2, 1}})
	if err != nil {
		t.Fatal(err)
	}
	for name, view := range map[string]struct {
		of   func() (*core.Tensor, error)
		want []int32
	}{
		"Slice":           {func() (*core.Tensor, error) { return v.Slice(0, 2, 4, 1) }, []int32{2, 3, 0, 1}},
		"Index":           {func() (*core.Tensor, error) { return v.Index(0, 3) }, []int32{0, 1}},
		"Slice backwards": {func() (*core.Tensor, error) { return v.Slice(0, 3, -1, -1) }, []int32{0, 1, 2, 3, 4, 5, 6, 7}},
	} {
		w, err := view.of()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all, err := core.All[int32](w)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Collect(all); !slices.Equal(got, view.want) {
			t.Errorf("%s: %v, want %v", name, got, view.want)
		}
		mustClose(t, w)
	}
	mustClose(t, v, base)

	if _, err := core.Wrap(core.Memory{ID: core.DeviceID{Type: core.DeviceVulkan}, Handle: 1, Size: core.UnknownSize}, core.Spec{DType: core.TypeInt32, Shape: []int64{1}, Offset: -4}); !errors.Is(err, core.ErrLayout) {
		t.Errorf("a negative offset beside an opaque handle: %v", err)
	}
}

func TestZeroSizeTensorsNeedNoMemory(t *testing.T) {
	v, err := core.Wrap(core.Memory{ID: core.CPU}, core.Spec{DType: core.TypeFloat32, Shape: []int64{3, 0}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if s, err := core.Values[float32](v); err != nil || len(s) != 0 {
		t.Errorf("Values = %v, %v", s, err)
	}
	if v.NumElements() != 0 || v.NumBytes() != 0 {
		t.Error(v.NumElements(), v.NumBytes())
	}
}

func TestMetadataOutlivesClose(t *testing.T) {
	v, err := core.FromSlice([]int16{1, 2, 3, 4}, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, v)
	if v.String() != "int16[2 2] on cpu" || v.NumBytes() != 8 || v.DeviceID() != core.CPU || v.Rank() != 2 {
		t.Errorf("after Close: %v, %d bytes", v, v.NumBytes())
	}
	if v.Device() != nil || v.Ready() != nil {
		t.Error("a closed tensor has a device or an event")
	}
	for name, f := range map[string]func() error{
		"Buffer":  func() error { _, err := v.Buffer(); return err },
		"Address": func() error { _, err := v.Address(); return err },
		"Values":  func() error { _, err := core.Values[int16](v); return err },
		"All":     func() error { _, err := core.All[int16](v); return err },
		"Share":   func() error { _, err := v.Share(); return err },
		"Slice":   func() error { _, err := v.Slice(0, 0, 1, 1); return err },
		"Copy":    func() error { _, err := backendkit.CheckCopy(v, v); return err },
	} {
		if err := f(); !errors.Is(err, core.ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
}

func TestReadOnlySurvivesEveryView(t *testing.T) {
	base, err := core.FromSlice(make([]float32, 12), 1, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	ro, err := base.AsReadOnly()
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if base.ReadOnly() || !ro.ReadOnly() {
		t.Fatal("AsReadOnly must change the view only")
	}
	for name, f := range map[string]func() (*core.Tensor, error){
		"Share": ro.Share, "Transpose": ro.Transpose, "AsReadOnly": ro.AsReadOnly,
		"Slice":     func() (*core.Tensor, error) { return ro.Slice(1, 0, 3, 2) },
		"Index":     func() (*core.Tensor, error) { return ro.Index(0, 0) },
		"Permute":   func() (*core.Tensor, error) { return ro.Permute(2, 0, 1) },
		"Reshape":   func() (*core.Tensor, error) { return ro.Reshape(4, 3) },
		"Squeeze":   func() (*core.Tensor, error) { return ro.Squeeze(0) },
		"Expand":    func() (*core.Tensor, error) { return ro.Expand(3) },
		"Broadcast": func() (*core.Tensor, error) { return ro.Broadcast(2, 3, 4) },
	} {
		v, err := f()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !v.ReadOnly() {
			t.Errorf("%s lost read-only", name)
		}
		if _, err := core.Mutable[float32](v); !errors.Is(err, core.ErrReadOnly) {
			t.Errorf("Mutable of %s: %v, want ErrReadOnly", name, err)
		}
		mustClose(t, v)
	}
}

func TestBroadcastIsReadOnlyWhereItRepeats(t *testing.T) {
	base, err := core.FromSlice([]int8{1, 2}, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	same, err := base.Broadcast(1, 2, 1)
	if err != nil || same.ReadOnly() {
		t.Errorf("broadcast without repetition: %v, %v", same, err)
	}
	more, err := base.Broadcast(2, 3)
	if err != nil || !more.ReadOnly() {
		t.Errorf("broadcast with repetition: %v, %v", more, err)
	}
	seq, err := core.All[int8](more)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(seq); !slices.Equal(got, []int8{1, 1, 1, 2, 2, 2}) {
		t.Error(got)
	}
	mustClose(t, same, more)
}

func TestPackedViewsStartOnBytes(t *testing.T) {
	m, _ := hostMemory(8) // 16 numbers of 4 bits
	v, err := core.Wrap(m, core.Spec{DType: core.TypeInt4, Shape: []int64{16}})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Slice(0, 3, 16, 1); !errors.Is(err, core.ErrLayout) {
		t.Errorf("a view from the middle of a byte: %v, want ErrLayout", err)
	}
	even, err := v.Slice(0, 6, 16, 1)
	if err != nil || even.Offset() != 3 || even.NumBytes() != 5 {
		t.Fatalf("%v at %d, %d bytes, %v", even, even.Offset(), even.NumBytes(), err)
	}
	mustClose(t, even)
	if _, err := core.Wrap(m, core.Spec{DType: core.TypeInt4, Shape: []int64{17}}); !errors.Is(err, core.ErrLayout) {
		t.Errorf("17 packed numbers in 8 bytes: %v, want ErrLayout", err)
	}
	if _, err := core.Wrap(m, core.Spec{DType: core.TypeInt4, Shape: []int64{9}, Flags: core.FlagSubBytePadded}); !errors.Is(err, core.ErrLayout) {
		t.Errorf("9 padded numbers in 8 bytes: %v, want ErrLayout", err)
	}
}

func TestOpaqueHandlesHaveNoAddress(t *testing.T) {
	o := &owner{}
	v, err := core.Wrap(core.Memory{
		ID: core.DeviceID{Type: core.DeviceVulkan}, Handle: 7, Offset: 256, Size: 64, Owner: o,
	}, core.Spec{DType: core.TypeUint8, Shape: []int64{32}, Offset: 16})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Address(); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("Address = %v, want ErrNotSupported", err)
	}
	w, err := v.Slice(0, 8, 16, 1)
	if err != nil || v.Offset() != 272 || w.Offset() != 280 {
		t.Errorf("offsets %d and %d, %v; want 272 and 280, beside the handle", v.Offset(), w.Offset(), err)
	}
	if b, err := w.Buffer(); err != nil || b.Memory().Handle != 7 {
		t.Errorf("the handle changed: %v %v", b, err)
	}
	if _, err := core.Values[uint8](v); !errors.Is(err, core.ErrDevice) {
		t.Errorf("Values = %v, want ErrDevice", err)
	}
	mustClose(t, v, w)
	if o.freed.Load() != 1 {
		t.Error("not freed once")
	}
}

func TestHammerViewsAndClose(t *testing.T) {
	m, o := hostMemory(64)
	base, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{8, 8}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				v, err := base.Transpose()
				if err != nil {
					if !errors.Is(err, core.ErrClosed) {
						t.Error(err)
					}
					return
				}
				w, err := v.Slice(0, 7, -1, -1)
				if err != nil {
					t.Error(err)
				} else {
					go w.Close()
					w.Close()
				}
				v.Close()
			}
		})
	}
	wg.Go(func() { base.Close() })
	wg.Wait()
	for deadline := time.Now().Add(30 * time.Second); o.freed.Load() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if n := o.freed.Load(); n != 1 {
		t.Errorf("freed %d times, want once", n)
	}
}

// leaveChunk makes so many tensors that the next ones have no memory in common
// with those before, which the net could otherwise not tell from open ones.
func leaveChunk(t *testing.T) {
	t.Helper()
	for range 4000 {
		v, err := core.FromSlice([]byte{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := v.Share()
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, v, w)
	}
}

func TestTheNetClosesLostTensors(t *testing.T) {
	before := core.ReadMetrics().LostTensors
	o := &owner{}
	func() {
		v, err := core.Wrap(core.Memory{ID: core.CPU, Owner: o}, core.Spec{DType: core.TypeUint8, Shape: []int64{0}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Share(); err != nil { // lost, too
			t.Fatal(err)
		}
	}()
	leaveChunk(t)
	for deadline := time.Now().Add(30 * time.Second); (o.freed.Load() == 0 || core.ReadMetrics().LostTensors < before+2) && time.Now().Before(deadline); {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if o.freed.Load() != 1 || core.ReadMetrics().LostTensors != before+2 {
		t.Errorf("freed %d times, %d leaks found; want 1 and 2", o.freed.Load(), core.ReadMetrics().LostTensors-before)
	}
	coretest.ExpectLeaks(2)
}

func TestTraceNamesTheMaker(t *testing.T) {
	core.TraceOpen(true)
	v, err := core.FromSlice([]byte{1})
	core.TraceOpen(false)
	if err != nil {
		t.Fatal(err)
	}
	named := func() bool {
		return slices.ContainsFunc(core.OpenTensors(), func(s string) bool { return strings.Contains(s, "TestTraceNamesTheMaker") })
	}
	if !named() {
		t.Errorf("OpenTensors() = %q", core.OpenTensors())
	}
	mustClose(t, v)
	if named() {
		t.Error("a closed tensor is listed as open")
	}
}

// That a consumer alone owns its memory is no longer so once there are two tensors on it.
func TestViewsAreNotFlaggedAsCopied(t *testing.T) {
	m, _ := hostMemory(6)
	const kept = core.FlagReadOnly | core.FlagSubBytePadded
	v, err := core.Wrap(m, core.Spec{DType: core.TypeInt4, Shape: []int64{1, 6}, Flags: core.FlagCopied | kept})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, v)
	for name, view := range map[string]func() (*core.Tensor, error){
		"Share":      v.Share,
		"AsReadOnly": v.AsReadOnly,
		"Transpose":  v.Transpose,
		"Slice":      func() (*core.Tensor, error) { return v.Slice(1, 0, 6, 2) },
		"Broadcast":  func() (*core.Tensor, error) { return v.Broadcast(3, 6) },
	} {
		x, err := view()
		if err != nil {
			t.Fatal(name, err)
		}
		if x.Flags() != kept {
			t.Errorf("%s has flags %b, want %b", name, x.Flags(), kept)
		}
		mustClose(t, x)
	}
	if v.Flags() != core.FlagCopied|kept {
		t.Errorf("the tensor itself has flags %b", v.Flags())
	}
}
