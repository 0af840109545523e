//go:build cgo && !windows

package dlpack_test

import (
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/core/dlpack/internal/hostile"
	"github.com/dlx-go/dlx/core/internal/abi"
)

func TestOurTableAllocates(t *testing.T) {
	producer := must[dlpack.Producer](t)(dlpack.NewProducer(dlpack.Table()))
	for _, shape := range [][]int64{{}, {3}, {2, 3, 4}, {0, 5}} {
		tensor := must[*core.Tensor](t)(producer.Allocate(core.CPU, core.TypeFloat32, shape...))
		wantLive(t, "dlpack.Allocation", 1)
		if !slices.Equal(tensor.Shape(), shape) || !tensor.Layout().IsContiguous() || tensor.DType() != core.TypeFloat32 {
			t.Errorf("shape %v became %v", shape, tensor)
		}
		if address := must[uintptr](t)(tensor.Address()); address%256 != 0 || (address == 0) != (tensor.NumElements() == 0) {
			t.Errorf("shape %v lies at %#x", shape, address)
		}
		for i := range must[[]float32](t)(core.Mutable[float32](tensor)) {
			must[[]float32](t)(core.Mutable[float32](tensor))[i] = 1
		}
		closeTensor(t, tensor)
		wantLive(t, "dlpack.Allocation", 0)
	}
}

func TestOurTableRefusesWithAnError(t *testing.T) {
	for name, c := range map[string]struct {
		device int32
		ndim   int32
		bits   uint8
		shape  []int64
		kind   string
	}{
		"another device":    {2, 1, 32, []int64{1}, "NotImplementedError"},
		"a negative extent": {1, 2, 32, []int64{1, -1}, "ValueError"},
		"a negative rank":   {1, -1, 32, []int64{1}, "ValueError"},
		"a giant rank":      {1, math.MaxInt32, 32, []int64{1}, "ValueError"},
		"no shape":          {1, 1, 32, nil, "ValueError"},
		"no bits":           {1, 1, 0, []int64{1}, "ValueError"},
		"too many elements": {1, 2, 32, []int64{1 << 62, 4}, "ValueError"},
		"too many bits":     {1, 1, 32, []int64{1 << 60}, "ValueError"},
	} {
		m, kind, code := hostile.CallAllocator(dlpack.Table(), c.device, c.ndim, c.bits, c.shape)
		if m != nil || kind != c.kind || code == 0 {
			t.Errorf("%s: %p, kind %q, code %d; want kind %q", name, m, kind, code, c.kind)
		}
	}
	if sum := hostile.CallPyFunctions(dlpack.Table()); sum != -2 {
		t.Errorf("the functions for Python objects answered %d together, want -1 each", sum)
	}
	if answer := hostile.CallWorkStream(dlpack.Table(), int32(core.DeviceCPU)); answer != 0 {
		t.Error("the stream of the CPU must be NULL")
	}
}

func TestForeignTablesAreChecked(t *testing.T) {
	clone := func(change func(*dlpack.ExchangeAPI)) *dlpack.ExchangeAPI {
		table := hostile.CloneTable(dlpack.Table())
		t.Cleanup(func() { hostile.FreeTable(table) })
		change(table)
		return table
	}
	old := clone(func(*dlpack.ExchangeAPI) {})
	for name, c := range map[string]struct {
		table *dlpack.ExchangeAPI
		want  error
	}{
		"nil":                        {nil, core.ErrInvalid},
		"major 0":                    {clone(func(x *dlpack.ExchangeAPI) { x.Header.Version.Major = 0 }), core.ErrVersion},
		"major 2, nothing older":     {clone(func(x *dlpack.ExchangeAPI) { x.Header.Version.Major = 2 }), core.ErrVersion},
		"major 2, itself as older":   {clone(func(x *dlpack.ExchangeAPI) { x.Header.Version.Major, x.Header.PrevAPI = 2, address(x) }), core.ErrVersion},
		"major 2, major 1 behind":    {clone(func(x *dlpack.ExchangeAPI) { x.Header.Version.Major, x.Header.PrevAPI = 2, address(old) }), nil},
		"a newer minor":              {clone(func(x *dlpack.ExchangeAPI) { x.Header.Version.Minor = 99 }), nil},
		"no borrowing function":      {clone(func(x *dlpack.ExchangeAPI) { x.DLTensorFromPyObjectNoSync = 0 }), nil},
		"no allocator":               {clone(func(x *dlpack.ExchangeAPI) { x.ManagedTensorAllocator = 0 }), core.ErrInvalid},
		"no function from Python":    {clone(func(x *dlpack.ExchangeAPI) { x.ManagedTensorFromPyObjectNoSync = 0 }), core.ErrInvalid},
		"no function to Python":      {clone(func(x *dlpack.ExchangeAPI) { x.ManagedTensorToPyObjectNoSync = 0 }), core.ErrInvalid},
		"no function for the stream": {clone(func(x *dlpack.ExchangeAPI) { x.CurrentWorkStream = 0 }), core.ErrInvalid},
	} {
		producer, err := dlpack.NewProducer(c.table)
		if c.want != nil {
			if err == nil {
				t.Errorf("%s: accepted", name)
				continue
			}
			wantError(t, err, c.want)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		closeTensor(t, must[*core.Tensor](t)(producer.Allocate(core.CPU, core.TypeInt8, 1)))
	}
}

func address(table *dlpack.ExchangeAPI) uintptr { return uintptr(unsafe.Pointer(table)) }

func TestForeignAllocatorsThatMisbehave(t *testing.T) {
	allocate := func(kind hostile.TableKind) error {
		producer := must[dlpack.Producer](t)(dlpack.NewProducer(hostile.Table(kind)))
		_, err := producer.Allocate(core.CPU, core.TypeInt8, 5)
		return err
	}
	for kind, want := range map[string]error{
		"MemoryError":         core.ErrOutOfMemory,
		"NotImplementedError": core.ErrNotSupported,
		"BufferError":         core.ErrNotSupported,
		"ValueError":          core.ErrInvalid,
		"":                    core.ErrInvalid,
	} {
		hostile.SetFailure(kind)
		wantError(t, allocate(hostile.TableFails), want)
	}
	wantError(t, allocate(hostile.TableNull), core.ErrInvalid)
	wantError(t, allocate(hostile.TableSilent), core.ErrInvalid)
	before := hostile.ImmortalDeleted()
	wantError(t, allocate(hostile.TableWrongShape), core.ErrInvalid)
	if n := hostile.ImmortalDeleted() - before; n != 1 {
		t.Errorf("what was not asked for was deleted %d times", n)
	}
}

func TestForeignWorkStream(t *testing.T) {
	producer := must[dlpack.Producer](t)(dlpack.NewProducer(hostile.Table(hostile.TableNull)))
	if stream := must[uintptr](t)(producer.CurrentWorkStream(core.DeviceID{Type: core.DeviceCUDA, Index: 2})); stream != 0x1002 {
		t.Errorf("stream %#x", stream)
	}
	_, err := producer.CurrentWorkStream(core.DeviceID{Type: core.DeviceROCM})
	wantError(t, err, core.ErrNotSupported)
}

func TestZeroProducerRefuses(t *testing.T) {
	_, err := dlpack.Producer{}.Allocate(core.CPU, core.TypeInt8)
	wantError(t, err, core.ErrInvalid)
	_, err = dlpack.Producer{}.CurrentWorkStream(core.CPU)
	wantError(t, err, core.ErrInvalid)
}

func TestOurTableIsOfThisVersion(t *testing.T) {
	if v := dlpack.Table().Header.Version; v != (abi.Version{Major: abi.MajorVersion, Minor: abi.MinorVersion}) {
		t.Errorf("version %v", v)
	}
}
