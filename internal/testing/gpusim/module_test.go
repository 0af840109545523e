//go:build linux && cgo

package gpusim_test

import (
	"bytes"
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
`

// size is that of a grid or of a block.
type size [3]int

// launch launches a kernel on memory.
func launch(d *driver, function, stream, ptr uint64, grid, block size) result {
	params := [1]uintptr{uintptr(unsafe.Pointer(&ptr))}
	return d.Result("cuLaunchKernel", function, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0, stream,
		&params[0], nil)
}

// load loads text and finds its entry.
func load(d *driver) (module, function uint64) {
	module = d.New("cuModuleLoadData", cText(text))
	return module, d.New("cuModuleGetFunction", module, cText("add"))
}

// "Execution Control", cuLaunchKernel. CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_*, MAX_GRID_DIM_*, .maxntid of a kernel; "a kernel
// launch will fail if it is issued to a stream that is not associated to the current device" ("Stream and Event Behavior").
func TestAKernelRunsInItsStream(t *testing.T) {
	const maxBlockY, maxBlockZ, maxGridX, maxGridY = 3, 4, 5, 6
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 64)
	module, function := load(d)
	defer d.OK("cuModuleUnload", module)
	d.Hold()
	for range 3 {
		equal(t, "a launch", launch(d, function, legacy, ptr, size{2, 1, 1}, size{32, 1, 1}), gpusimtest.Success)
	}
	wantByte(t, d, ptr+63, 0, "before anybody waits")
	d.OK("cuCtxSynchronize")
	d.Holds(ptr, bytes.Repeat([]byte{3}, 64))

	for which, want := range map[int]int32{maxBlockY: 1024, maxBlockZ: 64, maxGridX: 1<<31 - 1, maxGridY: 1<<16 - 1} {
		equal(t, "a limit", attribute(d, which), want)
	}
	for _, c := range []struct {
		name        string
		grid, block size
	}{
		{"no blocks", size{0, 1, 1}, size{1, 1, 1}},
		{"no threads", size{1, 1, 1}, size{1, 0, 1}},
		{"more threads than the function takes", size{1, 1, 1}, size{513, 1, 1}},
		{"more in z than a block has", size{1, 1, 1}, size{1, 1, 65}},
		{"more in y than a grid has", size{1, 1 << 16, 1}, size{1, 1, 1}},
		{"more in x than a grid has", size{1 << 31, 1, 1}, size{1, 1, 1}},
	} {
		equal(t, c.name, launch(d, function, legacy, ptr, c.grid, c.block), gpusimtest.InvalidValue)
	}
	d.Want(gpusimtest.InvalidValue, "cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, legacy, nil, nil)
	d.Run(t, "another context", func(t *testing.T, d *driver) {
		push(t, d, 1)
		r := launch(d, function, d.NewStream(), ptr, size{1, 1, 1}, size{1, 1, 1})
		equal(t, "a stream of another context", r, gpusimtest.InvalidHandle)
	})
}

// A kernel that leaves its memory fails its context when it runs.
func TestAKernelThatLeavesItsMemoryFails(t *testing.T) {
	d := gpusimtest.Start(t)
	_, function := load(d)
	ptr, stream := d.New("cuMemAlloc_v2", 32), d.New("cuStreamCreate", 1)
	equal(t, "the launch", launch(d, function, stream, ptr, size{2, 1, 1}, size{32, 1, 1}), gpusimtest.Success)
	d.Illegal("cuStreamSynchronize", stream)
}

// "Module Management".
func TestAModuleIsLoadedOfATextThatIsRight(t *testing.T) {
	const invalidPTX, noBinary result = 218, 209
	d := gpusimtest.Start(t)
	var made uint64
	d.WantMisuse(invalidPTX, "cuModuleLoadData", &made, cText("no text"))
	d.Want(gpusimtest.InvalidValue, "cuModuleLoadData", &made, nil)
	d.Want(noBinary, "cuModuleLoadData", &made, cText("\x7fELF\x02\x01\x01\x33"))
	d.Want(noBinary, "cuModuleLoadData", &made, cText("\x50\xed\x55\xba\x01\x00\x10\x00"))
	module, _ := load(d)
	d.Want(gpusimtest.NotFound, "cuModuleGetFunction", &made, module, cText("nothing"))
	d.OK("cuModuleUnload", module)
	d.WantMisuse(gpusimtest.InvalidHandle, "cuModuleUnload", module)
	d.WantMisuse(gpusimtest.InvalidHandle, "cuModuleGetFunction", &made, module, cText("nothing"))
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
	open := func() { module = d.New("cuModuleLoadData", cText(text)) }
	get := func() { function = d.New("cuModuleGetFunction", module, cText("add")) }
	load := func() { d.OK("cuFuncLoad", function) }
	run := func() { launch(d, function, d.NewStream(), ptr, size{1, 1, 1}, size{32, 1, 1}) }
	unload := func() { d.OK("cuModuleUnload", module) }
	for _, c := range []struct {
		name string
		call func()
		want result // of a query of other work after the call
	}{
		{"loading a module", open, gpusimtest.Success},
		{"finding a function", get, gpusimtest.Success},
		{"finding it again", get, gpusimtest.NotReady},
		{"loading it", load, gpusimtest.Success},
		{"loading it again", load, gpusimtest.NotReady},
		{"launching it", run, gpusimtest.NotReady},
		{"unloading its module", unload, gpusimtest.NotReady},
		{"loading the module again", open, gpusimtest.Success},
		{"finding its function", get, gpusimtest.Success},
		{"launching what is not loaded", run, gpusimtest.Success},
	} {
		release := d.Hold()
		fill(d, ptr, 1, 1, stream)
		c.call()
		equal(t, c.name, d.Result("cuStreamQuery", stream), c.want)
		d.OK("cuStreamSynchronize", stream)
		release()
	}
	d.OK("cuCtxSynchronize")
	unload()
}
