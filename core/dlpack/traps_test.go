//go:build cgo && !windows

package dlpack_test

import (
	"math"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
	"github.com/dlx-go/dlx/core/internal/abi"
)

// The tests of this file are mistakes that other implementations of DLPack made,
// each named after the mistake, with the reports it is known from.

// cupy #2095, DALI PR #6013, Arrow PR #51122.
func TestTrapNullStridesDereferenced(t *testing.T) {
	for _, s := range bothStructs {
		f := valid()
		f.Strides = nil
		p := lend(t, s.new(f))
		tensor := must[*core.Tensor](t)(s.take(p, dlpack.ImportOptions{Size: 24}))
		if got := tensor.Layout().Strides(); !slices.Equal(got, []int64{3, 1}) {
			t.Errorf("%s: NULL strides became %v", s.name, got)
		}
		m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
		if m.Tensor.Strides == 0 {
			t.Errorf("%s: strides are NULL after the re-export", s.name)
		}
		dlpack.Delete(m)
		closeTensor(t, tensor)
	}
}

// cccl #11605, onnxruntime #27450, Triton python_backend #444.
func TestTrapZeroSizeTensorRefused(t *testing.T) {
	shapes := [][]int64{{0}, {0, 3}, {3, 0}, {1 << 40, 0, 1 << 40}}
	for _, s := range bothStructs {
		for _, shape := range shapes {
			for _, data := range []uintptr{0, memory()} {
				f := valid()
				f.Data, f.NDim, f.Shape, f.Strides = data, int32(len(shape)), shape, nil
				p := lend(t, s.new(f))
				tensor := must[*core.Tensor](t)(s.take(p, dlpack.ImportOptions{Size: 0}))
				if tensor.NumElements() != 0 || !slices.Equal(tensor.Shape(), shape) {
					t.Errorf("%s: shape %v became %v", s.name, shape, tensor)
				}
				m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
				if m.Tensor.Data != 0 || m.Tensor.Strides == 0 {
					t.Errorf("%s: shape %v was exported with data %#x, strides %#x", s.name, shape, m.Tensor.Data, m.Tensor.Strides)
				}
				dlpack.Delete(m)
				closeTensor(t, tensor)
			}
		}
	}
}

// pytorch #188023, TensorFlow #51598.
func TestTrapNegativeStridesAbort(t *testing.T) {
	values := []float32{0, 1, 2, 3, 4, 5}
	source := must[*core.Tensor](t)(core.FromSlice(values)) // pins the slice
	defer closeTensor(t, source)
	for _, s := range bothStructs {
		f := valid()
		f.Data = must[uintptr](t)(source.Address())
		f.Strides, f.ByteOffset = []int64{-3, -1}, 20
		p := lend(t, s.new(f))
		tensor := must[*core.Tensor](t)(s.take(p, dlpack.ImportOptions{Size: 24}))
		if got := slices.Collect(must[iterator](t)(all(tensor))); !slices.Equal(got, []float32{5, 4, 3, 2, 1, 0}) {
			t.Errorf("%s: read %v", s.name, got)
		}
		closeTensor(t, tensor)
	}
}

// pytorch #168177, cuda-python #2576, pytorch PR #182924.
func TestTrapByteOffsetIgnoredOrAddedToHandle(t *testing.T) {
	for _, device := range []core.DeviceType{core.DeviceCPU, core.DeviceCUDA, core.DeviceROCM, core.DeviceExt, 99} {
		f := valid()
		f.Device.Type, f.ByteOffset = int32(device), 16
		p := lend(t, hostile.New(f))
		tensor := must[*core.Tensor](t)(dlpack.Import(p.Versioned(), dlpack.ImportOptions{}))
		if address := must[uintptr](t)(tensor.Address()); address != f.Data+16 {
			t.Errorf("%v: byte_offset was ignored", device)
		}
		m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
		known := device != core.DeviceExt && device != 99 // the others may have handles
		if m.Tensor.Data+uintptr(m.Tensor.ByteOffset) != f.Data+16 || known != (m.Tensor.ByteOffset == 0) {
			t.Errorf("%v: exported as data + %d, byte_offset %d", device, m.Tensor.Data-f.Data, m.Tensor.ByteOffset)
		}
		dlpack.Delete(m)
		closeTensor(t, tensor)
	}
	for _, device := range []core.DeviceType{core.DeviceOpenCL, core.DeviceVulkan, core.DeviceMetal, core.DeviceWebGPU} {
		f := valid()
		f.Device.Type, f.ByteOffset, f.Data = int32(device), 16, 7 // a handle is any number
		p := lend(t, hostile.New(f))
		tensor := must[*core.Tensor](t)(dlpack.Import(p.Versioned(), dlpack.ImportOptions{}))
		_, err := tensor.Address()
		wantError(t, err, core.ErrNotSupported)
		m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
		if m.Tensor.Data != 7 || m.Tensor.ByteOffset != 16 {
			t.Errorf("%v: handle 7 with offset 16 was exported as %d with %d", device, m.Tensor.Data, m.Tensor.ByteOffset)
		}
		dlpack.Delete(m)
		closeTensor(t, tensor)
	}
}

// tvm-ffi and nanobind, as read in 2026. Nothing behind flags may be read: the
// struct ends there, at the end of a page.
func TestTrapMajorVersionNotChecked(t *testing.T) {
	for _, major := range []uint32{0, 2, math.MaxUint32} {
		f := valid()
		f.Version = abi.Version{Major: major, Minor: 3}
		p := lend(t, hostile.NewTruncated(f))
		_, err := dlpack.Import(p.Versioned(), dlpack.ImportOptions{})
		wantError(t, err, core.ErrVersion)
		if n := p.Deleted(); n != 1 {
			t.Errorf("major %d: the deleter was called %d times", major, n)
		}
	}
	for _, minor := range []uint32{0, 1, 2, 4, math.MaxUint32} {
		f := valid()
		f.Version = abi.Version{Major: 1, Minor: minor}
		p := lend(t, hostile.New(f))
		tensor := must[*core.Tensor](t)(dlpack.Import(p.Versioned(), dlpack.ImportOptions{}))
		closeTensor(t, tensor)
	}
}

// tvm-ffi, CuPy, PyTorch (flags always 0).
func TestTrapFlagsDroppedOnReexport(t *testing.T) {
	f := valid()
	f.Flags = abi.FlagReadOnly | abi.FlagSubBytePadded
	f.DType = abi.DataType{Code: 17, Bits: 4, Lanes: 1}
	p := lend(t, hostile.New(f))
	tensor := must[*core.Tensor](t)(dlpack.Import(p.Versioned(), dlpack.ImportOptions{Size: 6}))
	defer closeTensor(t, tensor)
	view := must[*core.Tensor](t)(tensor.Transpose())
	defer closeTensor(t, view)
	for _, x := range []*core.Tensor{tensor, view} {
		m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(x))
		if m.Flags != f.Flags {
			t.Errorf("flags %d were exported as %d", f.Flags, m.Flags)
		}
		again := must[*core.Tensor](t)(dlpack.Import(m, dlpack.ImportOptions{}))
		if !again.ReadOnly() || !again.Padded() {
			t.Errorf("flags %d were imported as %d", f.Flags, again.Flags())
		}
		closeTensor(t, again)
	}
}

// CuPy, PyTorch: READ_ONLY ignored.
func TestTrapReadOnlyIgnored(t *testing.T) {
	f := valid()
	f.Flags = abi.FlagReadOnly
	p := lend(t, hostile.New(f))
	tensor := must[*core.Tensor](t)(dlpack.Import(p.Versioned(), dlpack.ImportOptions{}))
	defer closeTensor(t, tensor)
	_, err := core.Mutable[float32](tensor)
	wantError(t, err, core.ErrReadOnly)
	_, err = dlpack.ExportLegacy(tensor)
	wantError(t, err, core.ErrReadOnly)
}

// The legacy struct has no word for padding either.
func TestTrapPaddingLostInLegacy(t *testing.T) {
	f := valid()
	f.Flags = abi.FlagSubBytePadded
	f.DType = abi.DataType{Code: 0, Bits: 4, Lanes: 1}
	p := lend(t, hostile.New(f))
	tensor := must[*core.Tensor](t)(dlpack.Import(p.Versioned(), dlpack.ImportOptions{}))
	defer closeTensor(t, tensor)
	_, err := dlpack.ExportLegacy(tensor)
	wantError(t, err, core.ErrDType)
}

// pytorch #43166, #84612.
func TestTrapNullDeleterCalled(t *testing.T) {
	for _, s := range bothStructs {
		f := valid()
		f.NoDeleter = true
		p := lend(t, s.new(f))
		tensor := must[*core.Tensor](t)(s.take(p))
		closeTensor(t, tensor) // would jump to address 0
	}
	p := lend(t, hostile.New(hostile.Fields{NoDeleter: true}))
	dlpack.Delete(p.Versioned())
	legacy := lend(t, hostile.NewLegacy(hostile.Fields{NoDeleter: true}))
	dlpack.DeleteLegacy(legacy.Legacy())
}

// RAPIDS cuvs go/dlpack.go. A producer's struct is inaccessible after its deleter
// ran, so touching it or calling the deleter again would crash.
func TestTrapDeleterCalledTwiceOrStructTouchedAfter(t *testing.T) {
	for _, s := range bothStructs {
		p := lend(t, s.new(valid()))
		tensor := must[*core.Tensor](t)(s.take(p))
		view := must[*core.Tensor](t)(tensor.Share())
		var closers sync.WaitGroup
		for range 8 {
			closers.Go(func() {
				_ = tensor.Close()
				_ = view.Close()
			})
		}
		closers.Wait()
		if n := p.Deleted(); n != 1 {
			t.Errorf("%s: the deleter was called %d times", s.name, n)
		}
		if shape, text := tensor.Shape(), tensor.String(); !slices.Equal(shape, []int64{2, 3}) || text == "" {
			t.Errorf("%s: %s", s.name, text)
		}
	}
}

// A consumer that calls our deleter twice in a row does no harm.
func TestTrapConsumerDeletesTwice(t *testing.T) {
	tensor := iota32(t, 2)
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
	dlpack.Delete(m)
	dlpack.Delete(m)
	dlpack.Flush()
	dlpack.Delete(m)
	wantLive(t, "dlpack.Export", 0)
	if _, err := tensor.Buffer(); err != nil {
		t.Error("the second call took the exporter's own share")
	}
	a := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
	b := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
	if a == b {
		t.Error("the struct is on the list of free ones twice")
	}
	dlpack.Delete(a)
	dlpack.Delete(b)
}

// dlpack #103, #129, numpy #22507, CV-CUDA #298. The consumer's thread is none of
// Go's, and while it deletes every goroutine may hold what it wants: here the
// owner's Free needs a mutex that the deleting side holds.
func TestTrapDeleterNeedsLockItMayNotTake(t *testing.T) {
	var mu sync.Mutex
	freed := 0
	owner := core.FreeFunc(func() {
		mu.Lock()
		defer mu.Unlock()
		freed++
	})
	spec := core.Spec{DType: core.TypeUint8, Shape: []int64{4}}
	wrapped := must[*core.Tensor](t)(core.Wrap(core.Memory{ID: core.CPU, Handle: memory(), Size: 4, Owner: owner}, spec))
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(wrapped))
	closeTensor(t, wrapped)
	other := iota32(t, 1)

	mu.Lock()
	if !hostile.DeleteOnThread(m) {
		t.Error("the deleter changed errno")
	}
	for range 1000 { // exporting takes returned structs back, and must not call owners either
		m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(other))
		if !hostile.DeleteOnThread(m) {
			t.Fatal("the deleter changed errno")
		}
	}
	mu.Unlock()
	waitFor(t, "the owner's Free", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return freed == 1
	})
}

// cuvs PR #2239, CuPy, torch.
func TestTrapDeviceLost(t *testing.T) {
	for _, device := range []core.DeviceID{
		{Type: core.DeviceCPU},
		{Type: core.DeviceCUDA, Index: 3},
		{Type: core.DeviceCUDAHost},
		{Type: core.DeviceCUDAManaged},
		{Type: core.DeviceROCMHost},
		{Type: core.DeviceVulkan, Index: 1},
		{Type: core.DeviceAscend, Index: 7},
	} {
		for _, s := range bothStructs {
			f := valid()
			f.Device = abi.Device{Type: int32(device.Type), ID: device.Index}
			p := lend(t, s.new(f))
			tensor := must[*core.Tensor](t)(s.take(p))
			if tensor.DeviceID() != device {
				t.Errorf("%s: %v became %v", s.name, device, tensor.DeviceID())
			}
			m := must[*dlpack.ManagedTensor](t)(dlpack.ExportLegacy(tensor))
			if m.Tensor.Device != f.Device {
				t.Errorf("%s: %v was exported as %+v", s.name, device, m.Tensor.Device)
			}
			dlpack.DeleteLegacy(m)
			closeTensor(t, tensor)
		}
	}
}

// CuPy DLPackMemory.size: 2 x 3 floats are 24 bytes, not 20 and not 6.
func TestTrapSizeAsSumOfShape(t *testing.T) {
	for size, want := range map[int64]error{24: nil, 23: core.ErrLayout, 20: core.ErrLayout} {
		p := lend(t, hostile.New(valid()))
		tensor, err := dlpack.Import(p.Versioned(), dlpack.ImportOptions{Size: size})
		if want != nil {
			wantError(t, err, want)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if tensor.NumBytes() != 24 {
			t.Errorf("%d bytes", tensor.NumBytes())
		}
		closeTensor(t, tensor)
	}
}

// Triton client _dlpack.py.
func TestTrapBoolAsOneBit(t *testing.T) {
	tensor := must[*core.Tensor](t)(core.FromSlice([]bool{true, false, true}))
	defer closeTensor(t, tensor)
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
	if m.Tensor.DType != (abi.DataType{Code: 6, Bits: 8, Lanes: 1}) {
		t.Errorf("bool was exported as %+v", m.Tensor.DType)
	}
	if got := hostile.Gather(&m.Tensor, 3, 1); !slices.Equal(got, []byte{1, 0, 1}) {
		t.Errorf("C saw %v", got)
	}
	dlpack.Delete(m)

	f := valid()
	f.DType = abi.DataType{Code: 6, Bits: 1, Lanes: 1}
	p := lend(t, hostile.New(f))
	_, err := dlpack.Import(p.Versioned(), dlpack.ImportOptions{})
	wantError(t, err, core.ErrDType)
}

// DGL #4436, tvm-ffi, nanobind: races, since nobody waits for the producer. DLPack
// carries no event, so what counts here is that the tensor keeps its own through an
// export and that an import in the same process can be ordered by it. How streams
// wait, and which numbers they have in Python, is tested in package stream.
func TestTrapConsumersStreamIgnored(t *testing.T) {
	tensor := iota32(t, 4)
	work := event{make(chan struct{})}
	must[*core.Buffer](t)(tensor.Buffer()).Wrote(work)
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor)) // does not wait: no deadlock
	if tensor.Ready() == nil {
		t.Error("the export forgot the unfinished write")
	}
	close(work.done)
	if err := tensor.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
	dlpack.Delete(m)
}

// cutile-python #88: memory freed while work that was enqueued still uses it.
func TestTrapEarlyDeleteBeforeWorkIsDone(t *testing.T) {
	p := lend(t, hostile.New(valid()))
	tensor := must[*core.Tensor](t)(dlpack.Import(p.Versioned(), dlpack.ImportOptions{}))
	write, read := event{make(chan struct{})}, event{make(chan struct{})}
	b := must[*core.Buffer](t)(tensor.Buffer())
	b.Wrote(write)
	b.Used(read)
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
	closeTensor(t, tensor)
	dlpack.Delete(m)
	dlpack.Flush()
	close(write.done)
	if p.Deleted() != 0 {
		t.Fatal("deleted while a read is unfinished")
	}
	close(read.done)
	waitFor(t, "the deleter", func() bool { return p.Deleted() == 1 })
	waitFor(t, "the buffers", func() bool { return core.Live()["core.Buffer"] == 0 })
}

// pytorch #163242: a producer that synchronises its default stream breaks the
// capture of a graph. Neither export nor import waits for anything, and the
// table of this process names no stream but NULL for the CPU.
func TestTrapDefaultStreamSynchronisation(t *testing.T) {
	tensor := iota32(t, 4)
	never := event{make(chan struct{})}
	must[*core.Buffer](t)(tensor.Buffer()).Used(never)
	m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
	back := must[*core.Tensor](t)(dlpack.Import(m, dlpack.ImportOptions{}))
	closeTensor(t, back)
	if answer := hostile.CallWorkStream(dlpack.Table(), int32(core.DeviceCUDA)); answer == 0 {
		t.Error("the table names a default stream for CUDA")
	}
	close(never.done)
}

// DLPack.jl.
func TestTrapClosedEnums(t *testing.T) {
	for _, s := range bothStructs {
		for _, device := range []int32{0, -1, 5, 6, 19, 22, math.MaxInt32, math.MinInt32} {
			f := valid()
			f.Device.Type = device
			p := lend(t, s.new(f))
			tensor := must[*core.Tensor](t)(s.take(p))
			if int32(tensor.DeviceID().Type) != device || tensor.String() == "" {
				t.Errorf("%s: device type %d became %v", s.name, device, tensor)
			}
			closeTensor(t, tensor)
		}
		for _, code := range []uint8{18, 19, 200, 255} {
			f := valid()
			f.DType.Code = code
			p := lend(t, s.new(f))
			tensor := must[*core.Tensor](t)(s.take(p))
			m := must[*dlpack.ManagedTensor](t)(dlpack.ExportLegacy(tensor))
			if m.Tensor.DType != f.DType || tensor.String() == "" {
				t.Errorf("%s: %+v became %+v", s.name, f.DType, m.Tensor.DType)
			}
			dlpack.DeleteLegacy(m)
			closeTensor(t, tensor)
		}
	}
}

// A consumer may scribble over a struct that it owns; the next export of the same
// node must not be touched by it.
func TestTrapConsumerChangesTheStruct(t *testing.T) {
	tensor := iota32(t, 2, 3)
	for range 600 { // more than there are nodes: each is used again
		m := must[*dlpack.ManagedTensorVersioned](t)(dlpack.Export(tensor))
		if m.Tensor.NDim != 2 || !slices.Equal(int64s(m.Tensor.Shape, 2), []int64{2, 3}) || m.Version.Major != 1 || m.Flags != 0 || m.ManagerCtx != 0 {
			t.Fatalf("%+v", m)
		}
		deleter := m.Deleter
		*m = abi.ManagedTensorVersioned{}
		for i := range unsafe.Sizeof(*m) {
			*(*byte)(unsafe.Add(unsafe.Pointer(m), i)) = 0xff
		}
		m.Deleter = deleter
		dlpack.Delete(m)
	}
}
