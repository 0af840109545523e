package core_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// over makes 64 bytes of memory that hold the elements of s.
func over(t *testing.T, m core.Memory, s core.Spec) *core.Tensor {
	t.Helper()
	if m.Size == 0 {
		m.Size = 64
	}
	if s.DType == (core.DType{}) {
		s.DType = core.TypeUint8
	}
	x, err := core.Wrap(m, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

func bufferOf(t *testing.T, x *core.Tensor) *core.Buffer {
	t.Helper()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Memory is compared under every name that two tensors have in common. In each case
// the second memory begins 8 bytes into the first.
func TestMemoryUnderTwoNames(t *testing.T) {
	vulkan := core.DeviceID{Type: core.DeviceVulkan}
	opencl := core.DeviceID{Type: core.DeviceOpenCL}
	cuda := core.DeviceID{Type: core.DeviceCUDA}
	host := func(address uintptr) core.Memory { return core.Memory{ID: core.CPU, Handle: address} }
	object := func(handle, host uintptr) core.Memory {
		return core.Memory{ID: vulkan, Handle: handle, Offset: 256, Host: host}
	}
	ordered := func(t *testing.T, at int64, a, b *core.Tensor) { bufferOf(t, b).OrderWith(bufferOf(t, a), at) }
	for _, c := range []struct {
		name string
		a, b core.Memory
		join func(t *testing.T, a, b *core.Tensor)
	}{
		{"addresses of the host", host(4096), host(4104), nil},
		{"addresses of a device", core.Memory{ID: cuda, Handle: 4096}, core.Memory{ID: cuda, Handle: 4104}, nil},
		{"one handle", core.Memory{ID: vulkan, Handle: 5, Offset: 256}, core.Memory{ID: vulkan, Handle: 5, Offset: 264}, nil},
		{"an object and what the host sees of it", object(5, 4096), host(4104), nil},
		{"objects of two APIs over the host's memory", object(5, 4096), core.Memory{ID: opencl, Handle: 7, Host: 4104}, nil},
		{"what was made of it", object(5, 0), host(9999), func(t *testing.T, a, b *core.Tensor) { ordered(t, 8, a, b) }},
		{"what was made of what was made of it", object(5, 0), host(9999), func(t *testing.T, a, b *core.Tensor) {
			middle := over(t, core.Memory{ID: opencl, Handle: 3}, core.Spec{})
			ordered(t, 3, a, middle)
			ordered(t, 5, middle, b)
		}},
		{"two that were made of one", object(5, 0), host(9999), func(t *testing.T, a, b *core.Tensor) {
			first := over(t, core.Memory{ID: opencl, Handle: 3}, core.Spec{})
			ordered(t, 1, first, a)
			ordered(t, 9, first, b)
		}},
		{"made of what the host sees", object(5, 0), host(4104), func(t *testing.T, a, _ *core.Tensor) {
			ordered(t, 0, over(t, core.Memory{ID: opencl, Handle: 3, Host: 4096}, core.Spec{}), a)
		}},
		{"made of parts of one slice", object(5, 0), core.Memory{ID: opencl, Handle: 7}, func(t *testing.T, a, b *core.Tensor) {
			ordered(t, 0, over(t, host(4096), core.Spec{}), a)
			ordered(t, 0, over(t, host(4104), core.Spec{}), b)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := over(t, c.a, core.Spec{Shape: []int64{64}})
			b := over(t, c.b, core.Spec{Shape: []int64{64}})
			if c.join != nil {
				c.join(t, a, b)
			}
			wantShifted(t, a, b, 8)
		})
	}
}

// wantShifted proves that b, of 64 bytes, is known to begin so many bytes into a.
func wantShifted(t *testing.T, a, b *core.Tensor, by int64) {
	t.Helper()
	part := func(x *core.Tensor, from, to, step int64) *core.Tensor {
		v, err := x.Slice(0, from, to, step)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { v.Close() })
		return v
	}
	far := over(t, core.Memory{ID: core.DeviceID{Type: core.DeviceMAIA}, Handle: 1 << 40}, core.Spec{Shape: []int64{64}})
	for _, c := range []struct {
		name string
		x, y *core.Tensor
		want error
		same bool
	}{
		{"the same bytes", part(a, by+2, by+12, 1), part(b, 2, 12, 1), nil, true},
		{"one byte further", part(a, by+2, by+12, 1), part(b, 3, 13, 1), core.ErrLayout, false},
		{"one byte in common", part(a, by+2, by+12, 1), part(b, 11, 21, 1), core.ErrLayout, false},
		{"reversed", part(a, by+2, by+12, 1), part(b, 11, 1, -1), core.ErrLayout, false},
		{"side by side", part(a, by+2, by+12, 1), part(b, 12, 22, 1), nil, false},
		{"side by side, reversed", part(a, by+2, by+12, 1), part(b, 21, 11, -1), nil, false},
	} {
		for _, pair := range [][2]*core.Tensor{{c.x, c.y}, {c.y, c.x}} {
			if same, err := backendkit.CheckCopy(pair[0], pair[1]); same != c.same || !errors.Is(err, c.want) {
				t.Errorf("%s: %v, %v; want %v, %v", c.name, same, err, c.same, c.want)
			}
			one, two := part(far, 0, 10, 1), part(far, 20, 30, 1)
			for what, lists := range map[string][2][]*core.Tensor{
				"written and read":       {{pair[0], one}, {two, pair[1]}},
				"read and written":       {{one, pair[0]}, {pair[1], two}},
				"written twice":          {pair[:], {far, far}},
				"written, read and read": {{one, pair[0], two}, {pair[1], far, pair[1]}},
			} {
				if what == "written, read and read" {
					lists[1][1] = part(far, 40, 50, 1)
				}
				if got := backendkit.Independent(lists[0], lists[1]); got != (!c.same && c.want == nil) {
					t.Errorf("%s, %s: Independent returns %v", c.name, what, got)
				}
			}
			if !backendkit.Independent([]*core.Tensor{one, two}, pair[:]) {
				t.Errorf("%s, read twice: not independent", c.name)
			}
		}
	}
}

// Names that look alike are not those of one memory.
func TestOtherMemoryUnderTheSameName(t *testing.T) {
	gl := core.DeviceID{Type: core.DeviceGL}
	first, second := new(dummy), new(dummy)
	for name, pair := range map[string][2]core.Memory{
		"a handle that is the host's address": {{ID: core.DeviceID{Type: core.DeviceVulkan}, Handle: 4096}, {ID: core.CPU, Handle: 4096}},
		"an address on two devices":           {{ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: 4096}, {ID: core.DeviceID{Type: core.DeviceCUDA, Index: 1}, Handle: 4096}},
		"an address on a device and the host": {{ID: core.DeviceID{Type: core.DeviceROCM}, Handle: 4096}, {ID: core.CPU, Handle: 4096}},
		"a name in two contexts of OpenGL":    {{ID: gl, Device: first, Handle: 1}, {ID: gl, Device: second, Handle: 1}},
	} {
		a, b := over(t, pair[0], core.Spec{Shape: []int64{64}}), over(t, pair[1], core.Spec{Shape: []int64{64}})
		if same, err := backendkit.CheckCopy(a, b); same || err != nil {
			t.Errorf("%s: %v, %v", name, same, err)
		}
	}
}

// dummy is a device that does nothing.
type dummy struct {
	core.Device
	_ byte // so that two have two addresses
}

func TestMemoryOfOneFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no descriptors of memory on windows")
	}
	file := func() *os.File {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	one, other := file(), file()
	external := func(f *os.File, offset int64) core.ExternalMemory {
		return core.ExternalMemory{Handle: coretest.HandleOf(t, core.HandleMemFD, int(f.Fd())), Size: 1 << 20, Offset: offset, Length: 64}
	}
	at := func(address uintptr, x core.ExternalMemory) *core.Tensor {
		return over(t, core.Memory{ID: core.CPU, Handle: address, Backing: x.Backing()}, core.Spec{Shape: []int64{64}})
	}
	exported := over(t, core.Memory{ID: core.CPU, Handle: 1 << 20}, core.Spec{Shape: []int64{64}})
	if _, err := backendkit.CheckCopy(exported, at(2<<20, external(one, 4))); err != nil {
		t.Errorf("memory that was not exported: %v", err)
	}
	bufferOf(t, exported).Exported(external(one, 4))
	wantShifted(t, exported, at(2<<20, external(one, 12)), 8)
	wantShifted(t, at(3<<20, external(one, 0)), at(2<<20, external(one, 8)), 8)

	view := over(t, core.Memory{ID: core.CPU, Handle: 4 << 20}, core.Spec{Shape: []int64{64}})
	bufferOf(t, view).OrderWith(bufferOf(t, exported), 2)
	wantShifted(t, view, at(2<<20, external(one, 14)), 8)

	// Who gets the address alone, as by DLPack, is found by that.
	known := at(5<<20, external(one, 0))
	stranger := over(t, core.Memory{ID: core.CPU, Handle: 5<<20 + 8, Size: core.UnknownSize}, core.Spec{Shape: []int64{40}})
	second := at(6<<20, external(one, 0))
	wantShifted(t, second, stranger, 8)
	_ = known.Close()
	start, err := second.Slice(0, 0, 40, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer start.Close()
	if same, err := backendkit.CheckCopy(stranger, start); same || err != nil {
		t.Errorf("an address that nothing is known of any more: %v, %v", same, err)
	}

	if same, err := backendkit.CheckCopy(exported, at(2<<20, external(other, 4))); same || err != nil {
		t.Errorf("memory of another file: %v, %v", same, err)
	}
	opaque := external(one, 4)
	opaque.Handle = coretest.HandleOf(t, core.HandleOpaqueFD, int(one.Fd()))
	if same, err := backendkit.CheckCopy(exported, at(2<<20, opaque)); same || err != nil {
		t.Errorf("an offset that counts from elsewhere: %v, %v", same, err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ipc, err := backendkit.NewIPCHandle(core.VendorNVIDIA, []byte{1})
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*core.Handle{
		"a pipe":        coretest.HandleOf(t, core.HandleOpaqueFD, int(r.Fd())),
		"a closed file": coretest.DeadHandle(t, core.HandleMemFD),
		"no handle":     nil,
		"a zero handle": {},
		"bytes":         ipc,
	} {
		if (core.ExternalMemory{Handle: h}).Backing() != nil {
			t.Errorf("%s names a file", name)
		}
	}
}

// Interleaved views of one memory under two names share bytes or do not: the answer
// is that of looking at each byte.
func TestInterleavedBytes(t *testing.T) {
	const room = 256
	r := rand.New(rand.NewPCG(3, 15))
	device := over(t, core.Memory{ID: core.DeviceID{Type: core.DeviceVulkan}, Handle: 5, Size: room}, core.Spec{})
	host := over(t, core.Memory{ID: core.CPU, Handle: 4096, Size: room}, core.Spec{})
	bufferOf(t, host).OrderWith(bufferOf(t, device), 0)
	types := []core.DType{core.TypeUint8, core.TypeInt16, core.TypeFloat32}
	found := map[string]int{}
	for range 20000 {
		d := types[r.IntN(len(types))]
		shape := make([]int64, 1+r.IntN(3))
		for i := range shape {
			shape[i] = 1 + r.Int64N(4)
		}
		view := func(b *core.Buffer) (*core.Tensor, map[int64]bool) {
			strides := make([]int64, len(shape))
			for i := range strides {
				strides[i] = r.Int64N(17) - 8
			}
			x, err := core.NewTensor(b, core.Spec{DType: d, Shape: shape, Strides: strides, Offset: r.Int64N(room)})
			if err != nil || x.Layout().HasOverlap() {
				if err == nil {
					x.Close()
				}
				return nil, nil
			}
			bytes := map[int64]bool{}
			reach(bytes, x.Offset(), shape, strides, int64(d.Bits)/8)
			return x, bytes
		}
		x, written := view(bufferOf(t, device))
		y, read := view(bufferOf(t, host))
		if x != nil && y != nil {
			shared := false
			for i := range written {
				shared = shared || read[i]
			}
			same, err := backendkit.CheckCopy(x, y)
			if !same && shared != errors.Is(err, core.ErrLayout) {
				t.Fatalf("%v at %d and %v at %d share bytes: %v; CheckCopy: %v, %v", x, x.Offset(), y, y.Offset(), shared, same, err)
			}
			switch {
			case shared:
				found["shared"]++
			case len(written) > 0:
				found["apart"]++
			}
		}
		for _, v := range []*core.Tensor{x, y} {
			if v != nil {
				v.Close()
			}
		}
	}
	if found["shared"] < 100 || found["apart"] < 100 {
		t.Errorf("the cases are too few: %v", found)
	}
}

// reach adds the bytes of a tensor's elements.
func reach(bytes map[int64]bool, at int64, shape, strides []int64, size int64) {
	if len(shape) == 0 {
		for i := range size {
			bytes[at+i] = true
		}
		return
	}
	for i := range shape[0] {
		reach(bytes, at+i*strides[0]*size, shape[1:], strides[1:], size)
	}
}

// What would take too long to find out is taken for shared.
func TestInterleavedBytesBeyondReason(t *testing.T) {
	const size = 1 << 40
	device := over(t, core.Memory{ID: core.DeviceID{Type: core.DeviceVulkan}, Handle: 5, Size: size}, core.Spec{})
	host := over(t, core.Memory{ID: core.CPU, Handle: 4096, Size: size}, core.Spec{})
	bufferOf(t, host).OrderWith(bufferOf(t, device), 0)
	shape := []int64{90, 90, 90, 90, 90}
	x, err := core.NewTensor(bufferOf(t, device), core.Spec{DType: core.TypeUint8, Shape: shape, Strides: []int64{100003, 90007, 70001, 50021, 30011}})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, err := core.NewTensor(bufferOf(t, host), core.Spec{DType: core.TypeUint8, Shape: shape, Strides: []int64{100019, 90001, 70003, 50023, 30013}, Offset: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	if _, err := backendkit.CheckCopy(x, y); !errors.Is(err, core.ErrLayout) {
		t.Errorf("CheckCopy: %v", err)
	}
}
