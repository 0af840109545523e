//go:build linux && cgo

package gpusim_test

import (
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// text is a kernel that adds 1 to a byte for each of its threads, and stores where it is told without asking.
const text = `.version 6.0
.target sm_50
.address_size 64
.visible .entry add(.param .u64 to)
.maxntid 512, 1, 1
{
	.reg .b16 %rs<2>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd0, [to];
	mov.u32 %r0, %ctaid.x;
	mov.u32 %r1, %ntid.x;
	mov.u32 %r2, %tid.x;
	mad.lo.u32 %r3, %r0, %r1, %r2;
	cvt.u64.u32 %rd1, %r3;
	add.u64 %rd2, %rd0, %rd1;
	ld.global.u8 %rs0, [%rd2];
	add.u16 %rs1, %rs0, 1;
	st.global.u8 [%rd2], %rs1;
	ret;
}
` + "\x00"

// kernel loads text and finds its entry, until the test ends.
func kernel(t *testing.T, d *gpusimtest.Driver) (function uint64) {
	t.Helper()
	var module uint64
	image, name := []byte(text), []byte("add\x00")
	d.OK("cuModuleLoadData", &module, &image[0])
	d.OK("cuModuleGetFunction", &function, module, &name[0])
	t.Cleanup(func() { d.OK("cuModuleUnload", module) })
	return function
}

// launch launches a kernel on memory.
func launch(d *gpusimtest.Driver, function, stream, ptr uint64, grid, block [3]int) gpusimtest.Result {
	params := [1]uintptr{uintptr(unsafe.Pointer(&ptr))}
	return d.Result("cuLaunchKernel", function, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0, stream,
		&params[0], nil)
}

// "Execution Control", cuLaunchKernel.
func TestAKernelRunsInItsStream(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, function := memory(t, d, 64), kernel(t, d)
	hold(t, d)
	for range 3 {
		if r := launch(d, function, legacy, ptr, [3]int{2, 1, 1}, [3]int{32, 1, 1}); r != gpusimtest.Success {
			t.Fatal(d.Name(r))
		}
	}
	wantByte(t, d, ptr+63, 0, "before anybody waits")
	d.OK("cuCtxSynchronize")
	for i, b := range d.Read(ptr, 64) {
		if b != 3 {
			t.Fatalf("byte %d is %d after three launches", i, b)
		}
	}
}

// CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_*, MAX_GRID_DIM_*, .maxntid of a kernel; "a kernel launch will
// fail if it is issued to a stream that is not associated to the current device" ("Stream and Event Behavior").
func TestALaunchKeepsToTheLimits(t *testing.T) {
	const maxBlockY, maxBlockZ, maxGridX, maxGridY = 3, 4, 5, 6
	d := gpusimtest.Start(t)
	ptr, function := memory(t, d, 64), kernel(t, d)
	var n int32
	for attribute, want := range map[int]int32{maxBlockY: 1024, maxBlockZ: 64, maxGridX: 1<<31 - 1, maxGridY: 1<<16 - 1} {
		d.OK("cuDeviceGetAttribute", &n, attribute, 0)
		if n != want {
			t.Errorf("attribute %d is %d, want %d", attribute, n, want)
		}
	}
	for _, c := range []struct {
		name        string
		grid, block [3]int
	}{
		{"no blocks", [3]int{0, 1, 1}, [3]int{1, 1, 1}},
		{"no threads", [3]int{1, 1, 1}, [3]int{1, 0, 1}},
		{"more threads than the function takes", [3]int{1, 1, 1}, [3]int{513, 1, 1}},
		{"more in z than a block has", [3]int{1, 1, 1}, [3]int{1, 1, 65}},
		{"more in y than a grid has", [3]int{1, 1 << 16, 1}, [3]int{1, 1, 1}},
		{"more in x than a grid has", [3]int{1 << 31, 1, 1}, [3]int{1, 1, 1}},
	} {
		d.Run(t, c.name, func(t *testing.T, d *gpusimtest.Driver) {
			if r := launch(d, function, legacy, ptr, c.grid, c.block); r != gpusimtest.InvalidValue {
				t.Error(d.Name(r))
			}
		})
	}
	d.Want(gpusimtest.InvalidValue, "cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, legacy, nil, nil)
	push(t, d, 1)
	other := d.NewStream()
	if r := launch(d, function, other, ptr, [3]int{1, 1, 1}, [3]int{1, 1, 1}); r != gpusimtest.InvalidHandle {
		t.Errorf("a stream of another context: %s", d.Name(r))
	}
}

// A kernel that leaves its memory fails its context when it runs.
func TestAKernelThatLeavesItsMemoryFails(t *testing.T) {
	d := gpusimtest.Start(t)
	var ptr, module, function, stream uint64
	image, name := []byte(text), []byte("add\x00")
	d.OK("cuModuleLoadData", &module, &image[0])
	d.OK("cuModuleGetFunction", &function, module, &name[0])
	d.OK("cuStreamCreate", &stream, 1)
	d.OK("cuMemAlloc_v2", &ptr, 32)
	if r := launch(d, function, stream, ptr, [3]int{2, 1, 1}, [3]int{32, 1, 1}); r != gpusimtest.Success {
		t.Fatal(d.Name(r))
	}
	d.Illegal("cuStreamSynchronize", stream)
}

// "Module Management".
func TestAModuleIsLoadedOfATextThatIsRight(t *testing.T) {
	const invalidPTX, noBinary gpusimtest.Result = 218, 209
	d := gpusimtest.Start(t)
	wrong, image := []byte("no text\x00"), []byte(text)
	nothing := []byte("nothing\x00")
	var module, function uint64
	d.WantMisuse(invalidPTX, "cuModuleLoadData", &module, &wrong[0])
	d.Want(gpusimtest.InvalidValue, "cuModuleLoadData", &module, nil)
	for _, binary := range []string{"\x7fELF\x02\x01\x01\x33", "\x50\xed\x55\xba\x01\x00\x10\x00"} {
		cubin := []byte(binary)
		d.Want(noBinary, "cuModuleLoadData", &module, &cubin[0])
	}
	d.OK("cuModuleLoadData", &module, &image[0])
	d.Want(gpusimtest.NotFound, "cuModuleGetFunction", &function, module, &nothing[0])
	d.OK("cuModuleUnload", module)
	d.WantMisuse(gpusimtest.InvalidHandle, "cuModuleUnload", module)
	d.WantMisuse(gpusimtest.InvalidHandle, "cuModuleGetFunction", &function, module, &nothing[0])
}

// "Loading kernels might require context synchronization" ("Lazy Loading"); cuModuleEnumerateFunctions: "CUDA APIs may
// load the function automatically when called with partially loaded function handle".
func TestLoadingMayWaitForTheContext(t *testing.T) {
	if runAlone(t, "DLX_GPUSIM_LAZY=1") {
		return
	}
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 64), d.NewStream()
	var module, function uint64
	image, name := []byte(text), []byte("add\x00")
	// waits reports whether work of a stream is done when a call returns.
	waits := func(call func()) bool {
		d.Call("dlx_gpusim_hold", 1)
		defer d.Call("dlx_gpusim_hold", 0)
		d.OK("cuMemsetD8Async", ptr, 1, 1, stream)
		call()
		switch r := d.Result("cuStreamQuery", stream); r {
		case gpusimtest.Success:
			return true
		default:
			d.OK("cuStreamSynchronize", stream)
			return false
		}
	}
	get := func() { d.OK("cuModuleGetFunction", &function, module, &name[0]) }
	load := func() { d.OK("cuFuncLoad", function) }
	for _, c := range []struct {
		name string
		call func()
		want bool
	}{
		{"loading a module", func() { d.OK("cuModuleLoadData", &module, &image[0]) }, true},
		{"finding a function", get, true},
		{"finding it again", get, false},
		{"loading it", load, true},
		{"loading it again", load, false},
		{"launching it", func() { launch(d, function, d.NewStream(), ptr, [3]int{1, 1, 1}, [3]int{32, 1, 1}) }, false},
	} {
		if got := waits(c.call); got != c.want {
			t.Errorf("%s waits for the context: %v, want %v", c.name, got, c.want)
		}
	}
	d.OK("cuCtxSynchronize")
	d.OK("cuModuleUnload", module)
	d.OK("cuModuleLoadData", &module, &image[0])
	d.OK("cuModuleGetFunction", &function, module, &name[0])
	if !waits(func() { launch(d, function, d.NewStream(), ptr, [3]int{1, 1, 1}, [3]int{32, 1, 1}) }) {
		t.Error("a launch of a function that is not loaded does not wait")
	}
	d.OK("cuCtxSynchronize")
	d.OK("cuModuleUnload", module)
}
